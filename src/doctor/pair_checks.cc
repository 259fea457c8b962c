#include "doctor/pair_checks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>

#include "doctor/wire_probe.h"
#include "store/tcp_address.h"

namespace ronde::doctor {

namespace {

constexpr Nanoseconds kConnectLimit = 5 * kSecond;
constexpr Nanoseconds kIdleLimit = 3 * kSecond;
constexpr Nanoseconds kExchangeLimit = 120 * kSecond;
constexpr int kRoundTrips = 200;
constexpr std::size_t kChunkBytes = 1 << 20;
constexpr Nanoseconds kStreamTime = 100 * kMillisecond;
constexpr Nanoseconds kFarApart = kSecond;
/// Slower than the slowest network that a job would use; loss on the way looks so.
constexpr double kSlowBytes = 10e6;

Nanoseconds time_of_day() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string text_of(const store::Value& value) {
  return {reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()};
}

Result<std::vector<store::Value>> exchange(const PairPlan& plan, const std::string& scope, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return plan.store.exchange("doctor/" + scope, plan.rank, plan.size, {{bytes.begin(), bytes.end()}, {}},
                             kExchangeLimit);
}

/// The side that measures: round trips, then bytes there, then bytes back.
Result<PairFigures> measure(WireProbe& probe) {
  PairFigures figures;
  const RealClock clock;
  std::vector<Nanoseconds> rounds;
  figures.uncertain_by = kNever;
  for (int i = 0; i < kRoundTrips; ++i) {
    const Nanoseconds from = clock.now();
    const Nanoseconds sent_at = time_of_day();
    RONDE_RETURN_IF_ERROR(probe.send(&sent_at, sizeof sent_at, kIdleLimit));
    Nanoseconds theirs = 0;
    RONDE_RETURN_IF_ERROR(probe.receive(&theirs, sizeof theirs, kIdleLimit));
    rounds.push_back(clock.now() - from);
    if (rounds.back() / 2 < figures.uncertain_by) {
      figures.uncertain_by = rounds.back() / 2;
      figures.clocks_apart = theirs - sent_at - rounds.back() / 2;
    }
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRoundTrips / 2, rounds.end());
  figures.one_way = rounds[kRoundTrips / 2] / 2;
  std::vector<char> chunk(kChunkBytes);
  std::int64_t bytes = 0;
  const Nanoseconds from = clock.now();
  do {
    chunk[0] = clock.now() - from < kStreamTime ? 1 : 0;  // 0: the last
    RONDE_RETURN_IF_ERROR(probe.send(chunk.data(), chunk.size(), kIdleLimit));
    bytes += kChunkBytes;
  } while (chunk[0] != 0);
  Nanoseconds done = 0;
  RONDE_RETURN_IF_ERROR(probe.receive(&done, sizeof done, kIdleLimit));
  figures.there = static_cast<double>(bytes) * 1e9 / static_cast<double>(clock.now() - from);
  const Nanoseconds back_from = clock.now();
  bytes = 0;
  do {
    RONDE_RETURN_IF_ERROR(probe.receive(chunk.data(), chunk.size(), kIdleLimit));
    bytes += kChunkBytes;
  } while (chunk[0] != 0);
  figures.back = static_cast<double>(bytes) * 1e9 / static_cast<double>(clock.now() - back_from);
  return figures;
}

/// The other side of measure().
Status answer(WireProbe& probe) {
  for (int i = 0; i < kRoundTrips; ++i) {
    Nanoseconds theirs = 0;
    RONDE_RETURN_IF_ERROR(probe.receive(&theirs, sizeof theirs, kIdleLimit));
    const Nanoseconds mine = time_of_day();
    RONDE_RETURN_IF_ERROR(probe.send(&mine, sizeof mine, kIdleLimit));
  }
  std::vector<char> chunk(kChunkBytes);
  do {
    RONDE_RETURN_IF_ERROR(probe.receive(chunk.data(), chunk.size(), kIdleLimit));
  } while (chunk[0] != 0);
  const Nanoseconds done = 0;
  RONDE_RETURN_IF_ERROR(probe.send(&done, sizeof done, kIdleLimit));
  const RealClock clock;
  const Nanoseconds from = clock.now();
  do {
    chunk[0] = clock.now() - from < kStreamTime ? 1 : 0;
    RONDE_RETURN_IF_ERROR(probe.send(chunk.data(), chunk.size(), kIdleLimit));
  } while (chunk[0] != 0);
  return {};
}

Finding unreachable(const Status& status, const std::string& where, bool other_way) {
  Finding finding{Grade::failure, "", "", ""};
  const std::string direction = other_way ? "the other way, " : "";
  finding.text = direction + "no connection to " + where + ": " + status.message();
  finding.advice = status.code() == Code::timed_out
                       ? "a firewall drops packets there, or the address is of another network (--network-interface)"
                       : "a firewall refuses, or the address is not of that host (--network-interface)";
  return finding;
}

Finding broken(const Status& status) {
  return {Grade::failure, "", "connected, but then: " + status.message(),
          "where small packets pass and large ones vanish, MTUs differ on the way: compare those above"};
}

}  // namespace

Finding judge(const PairFigures& figures) {
  char text[160];
  std::snprintf(text, sizeof text, "%.0f us one way, %.2f GB/s there, %.2f back, clocks %.3f ms apart",
                static_cast<double>(figures.one_way) / 1e3, figures.there / 1e9, figures.back / 1e9,
                static_cast<double>(figures.clocks_apart) / 1e6);
  Finding finding{Grade::ok, "", text, ""};
  if (std::min(figures.there, figures.back) < kSlowBytes) {
    finding.grade = Grade::warning;
    finding.advice = "so slow a network trains nothing: packets are lost, or it is not the one that was meant";
  }
  if (std::abs(figures.clocks_apart) > kFarApart + figures.uncertain_by) {
    finding.grade = Grade::warning;
    finding.advice = "set the clocks (chrony, ntpd): files' times and merged timelines go by them";
  }
  return finding;
}

Result<std::vector<PairReport>> examine_pairs(const PairPlan& plan) {
  const bool is_ipv6 = plan.address.find(':') != std::string::npos;
  Result<UniqueFd> listener = store::listen_tcp({plan.address, 0}, store::HostIs::numbers);
  std::string own = "cannot listen at " + plan.address;
  if (listener) {
    RONDE_ASSIGN_OR_RETURN(const std::uint16_t port, store::port_of(listener->get()));
    own = (is_ipv6 ? "[" + plan.address + "]" : plan.address) + ":" + std::to_string(port);
  }
  RONDE_ASSIGN_OR_RETURN(const std::vector<store::Value> addresses, exchange(plan, "addresses", own));
  std::vector<PairReport> found;
  for (int one = 0; one < plan.size; ++one) {
    for (int other = one + 1; other < plan.size; ++other) {
      // Both ways: what connects one way may be refused the other.
      for (const bool other_way : {false, true}) {
        const int caller = other_way ? other : one;
        const int called = other_way ? one : other;
        const std::string where = text_of(addresses[static_cast<std::size_t>(called)]);
        const std::string scope = std::to_string(one) + "-" + std::to_string(other) + (other_way ? "/back" : "/there");
        std::string result;
        if (plan.rank == called && listener) {
          Result<WireProbe> probe = WireProbe::accept(listener->get(), plan.key, 2 * kConnectLimit);
          if (probe) {
            (void)answer(*probe);  // the caller tells
          }
        } else if (plan.rank == caller) {
          Result<WireProbe> probe = WireProbe::connect(where, plan.key, kConnectLimit);
          Finding finding = probe ? Finding{} : unreachable(probe.status(), where, other_way);
          if (probe) {
            const Result<PairFigures> figures = measure(*probe);
            finding = figures ? judge(figures.value()) : broken(figures.status());
          }
          result = encode(std::vector<PairReport>{{one, other, std::move(finding)}});
        }
        RONDE_ASSIGN_OR_RETURN(const std::vector<store::Value> results, exchange(plan, scope, result));
        RONDE_ASSIGN_OR_RETURN(const std::vector<PairReport> told,
                               decode_pairs(text_of(results[static_cast<std::size_t>(caller)])));
        // The figures of one way are both ways'.
        if (!other_way || told.at(0).finding.grade == Grade::failure) {
          found.push_back(told.at(0));
        }
      }
    }
  }
  return found;
}

}  // namespace ronde::doctor
