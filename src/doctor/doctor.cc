#include "doctor/doctor.h"

#include <cstdio>
#include <limits>
#include <span>

#include "base/environment.h"
#include "doctor/finding.h"
#include "doctor/host_checks.h"
#include "doctor/pair_checks.h"
#include "store/store_client.h"

namespace ronde::doctor {

namespace {

/// More than what one host may take to examine itself: its frameworks (python_check.cc), MPI and libfabric.
constexpr Nanoseconds kMeetingLimit = 240 * kSecond;

int print(const std::vector<HostReport>& hosts, const std::vector<PairReport>& pairs,
          const std::vector<Finding>& together, bool json) {
  const std::string text = json ? as_json(hosts, pairs, together) : as_text(hosts, pairs, together);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return worst(hosts, pairs, together) == Grade::failure ? 1 : 0;
}

Result<int> number(const char* variable) {
  RONDE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> value,
                         environment_integer(variable, 0, std::numeric_limits<int>::max()));
  return static_cast<int>(value.value_or(0));
}

Result<int> examine(bool json) {
  RONDE_ASSIGN_OR_RETURN(const int rank, number("RONDE_RANK"));
  RONDE_ASSIGN_OR_RETURN(const int size, number("RONDE_SIZE"));
  RONDE_ASSIGN_OR_RETURN(const JobKey key, parse_job_key(environment_text("RONDE_KEY").value_or("")));
  RONDE_ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                         store::connect_store(environment_text("RONDE_STORE").value_or(""), key, kMeetingLimit));
  const std::string own = encode(examine_host());
  const auto bytes = std::as_bytes(std::span(own));
  RONDE_ASSIGN_OR_RETURN(
      const std::vector<store::Value> values,
      store->exchange("doctor/hosts", rank, size, {{bytes.begin(), bytes.end()}, {}}, kMeetingLimit));
  std::vector<HostReport> hosts;
  for (const store::Value& each : values) {
    RONDE_ASSIGN_OR_RETURN(HostReport report,
                           decode_host({reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size()}));
    hosts.push_back(std::move(report));
  }
  RONDE_ASSIGN_OR_RETURN(
      const std::vector<PairReport> pairs,
      examine_pairs({*store, key, rank, size, environment_text("RONDE_ADDRESS").value_or("127.0.0.1")}));
  if (rank != 0) {
    return 0;
  }
  return print(hosts, pairs, compare(hosts), json);
}

}  // namespace

int examine_this_host(bool json) { return print({examine_host()}, {}, {}, json); }

int examine_hosts(launch::HostsJob job, bool json) {
  for (launch::HostSlots& host : job.hosts) {
    host.slots = 1;
  }
  job.command = {job.program, "doctor", "--of-a-job"};
  if (json) {
    job.command.emplace_back("--json");
  }
  job.prefix = false;
  const launch::JobEnd end = launch::run_hosts_job(job);
  if (end.exit_code != 0 && end.exit_code != 1) {
    std::fprintf(stderr, "ronde doctor: %s\n", end.sentence.c_str());
  }
  return end.exit_code;
}

int examine_as_rank(bool json) {
  const Result<int> code = examine(json);
  if (!code) {
    std::fprintf(stderr, "ronde doctor: %s\n", code.status().message().c_str());
    return launch::kLauncherExit;
  }
  return code.value();
}

}  // namespace ronde::doctor
