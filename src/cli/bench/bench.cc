#include "cli/bench/bench.h"

#include <ronde/ronde.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/host_table_probe.h"
#include "cli/bench/ronde_contestant.h"
#include "cli/bench/start_line_by_calls.h"
#include "cli/bench/start_line_pages.h"
#include "cli/help/help.h"
#include "cli/measuring/output.h"
#include "cli/measuring/workload/command_line.h"

namespace ronde::cli {

namespace {

constexpr const char* kAbout = "Measures how long collective operations take";

constexpr const char* kFooter = R"(Examples:
  ronde bench allreduce --ranks 4
  ronde bench allreduce --bytes 64K,16M --dtype bfloat16 --in-place --form slot --plot allreduce.svg
  ronde bench allreduce --gradients resnet50 --mode blocking --in-place
  ronde bench allreduce --many 3000x1K --overlap 10
  ronde bench --table --ranks 4
  ronde run --no-prefix -H node1:4,node2:4 -- ronde bench --table > hosts.table
  ronde run -n 2 -- ronde bench broadcast --bytes 1M --json
  ronde run --no-prefix -H node1:4,node2:4 -- ronde bench allreduce

--bytes is the size of one rank's input. All ranks start a call together, from a line in shared memory of their own,
or between hosts from a call in which they meet; its time is the slowest rank's. The input is written anew before each
call, and every result is verified. With a core for each rank the calling threads stay on one each, as MPI's launchers
place ranks.

  algo GB/s   bytes / median (10^9 bytes a second)
  bus GB/s    what passes a rank's link whatever the algorithm: of an all-reduce on p ranks 2(p-1)/p times as much, of
              an allgather p-1 times, of a broadcast as much
  compute us  with --overlap: the same computing without communication, measured in turn with it
  exposed us  the median less that: what communication adds to a step

With --json each line also says how long a cache line takes between the first two ranks' cores (line_ns): on virtual
machines it changes by the minute, and only measurements with like values are comparable.)";

constexpr int kDefaultRanks = 2;

struct Words {
  BenchWords bench;
  int ranks = 0;  ///< 0: not given
  bool table = false;
};

bool is_in_job() { return std::getenv("RONDE_RANK") != nullptr && std::getenv("RONDE_SIZE") != nullptr; }

/// Becomes `ronde run` of this very program with these arguments. Returns only if that cannot be: the exit code.
int start_ranks(std::vector<std::string> program_arguments, int ranks) {
  std::string self(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0) {
    std::fprintf(stderr, "ronde bench: cannot find this program: %s\n", std::strerror(errno));
    return 1;
  }
  self.resize(static_cast<std::size_t>(length));
  std::vector<std::string> words{"ronde", "run", "--no-prefix", "-n", std::to_string(ranks), "--", self};
  for (std::string& word : program_arguments) {
    words.push_back(std::move(word));
  }
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  execv(self.c_str(), arguments.data());
  std::fprintf(stderr, "ronde bench: cannot start %s: %s\n", self.c_str(), std::strerror(errno));
  return 1;
}

std::string measure_as_rank(const BenchOptions& options) {
  RondeContestant contestant(options);
  if (!contestant.init()) {
    return contestant.failure();
  }
  if (contestant.spans_hosts()) {
    StartLineByCalls calls(contestant.rank(), contestant.size());
    return measure_and_print("ronde", options, contestant, calls.line());
  }
  StartLinePages pages;
  std::string failure = pages.share(contestant.rank(), contestant.size());
  if (failure.empty()) {
    const StartLine line = pages.line(contestant.rank(), contestant.size());
    failure = measure_and_print("ronde", options, contestant, line);
  }
  return failure;
}

int measure_here(const BenchOptions& options) {
  const std::string failure = measure_as_rank(options);
  if (failure.empty()) {
    return 0;
  }
  std::fprintf(stderr, "ronde bench: rank %s: %s\n", std::getenv("RONDE_RANK"), failure.c_str());
  return 1;
}

/// The same between several hosts, where it is measured.
int print_probed_table(const std::string& in_force, int hosts, const HostLimits& before,
                       const ronde_topology& topology) {
  std::string found;
  if (const std::string failure = probe_host_table(hosts, before, topology.rank == 0, &found); !failure.empty()) {
    std::fprintf(stderr, "ronde bench: rank %d: %s\n", topology.rank, failure.c_str());
    return 1;
  }
  if (topology.rank == 0) {
    std::printf(
        "# measured between %d hosts of %d ranks, in bytes but for turns; RONDE_TABLE takes such lines, or a file with "
        "them\n# before: %s%s",
        hosts, topology.size, in_force.c_str(), found.c_str());
  }
  return 0;
}

/// What --table does on a rank.
int print_table() {
  const char* text = nullptr;
  std::size_t bytes = 0;
  ronde_topology topology{};
  topology.struct_size = sizeof topology;
  if (ronde_init(nullptr) != RONDE_OK || ronde_get_topology(nullptr, &topology) != RONDE_OK ||
      ronde_get_table(nullptr, &text, &bytes) != RONDE_OK) {
    std::fprintf(stderr, "ronde bench: %s\n", ronde_last_error());
    return 1;
  }
  const std::string row(text, bytes);
  ronde_shutdown();
  int hosts = 0;
  HostLimits before;
  if (std::sscanf(row.c_str(), "hosts %d: one_turn %zu, gathered %*u, turn %*u, large_turn %d", &hosts,
                  &before.one_turn, &before.large_turn) == 3) {
    return print_probed_table(row, hosts, before, topology);
  }
  if (topology.rank == 0) {
    std::printf("# for %d rank%s of one host, in bytes; RONDE_TABLE, such lines or a file with them, gives others\n%s",
                topology.size, topology.size == 1 ? "" : "s", row.c_str());
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto words = std::make_shared<Words>();
  CLI::App* const command = app.add_subcommand("bench", kAbout);
  command->formatter(std::make_shared<HelpFormatter>("bench OPERATION [OPTIONS]"));
  command->footer(kFooter);
  words->bench.form.clear();
  add_bench_options(*command, words->bench);
  command->get_option("operation")->required(false);
  command->add_flag("--table", words->table,
                    "prints the thresholds of the algorithms instead, for so many ranks; in a job of several hosts "
                    "measures them");
  command->add_option("-n,--ranks", words->ranks, "ranks to start (2); inside a job its ranks measure")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  command->callback([words] {
    if (!words->table && words->bench.op.empty()) {
      throw CLI::RequiredError("operation: " + bench_op_choice());
    }
    if (is_in_job() && words->ranks != 0 && std::to_string(words->ranks) != std::getenv("RONDE_SIZE")) {
      throw CLI::ValidationError(
          "--ranks", "this is a rank of a job of " + std::string(std::getenv("RONDE_SIZE")) + "; leave --ranks away");
    }
    const int ranks = words->ranks != 0 ? words->ranks : kDefaultRanks;
    int code = 0;
    if (words->table) {
      code = is_in_job() ? print_table() : start_ranks({"bench", "--table"}, ranks);
    } else {
      BenchOptions options = understood(words->bench);
      // The ranks' standard error is a pipe to the launcher: whether a person looks on is known here only.
      options.progress |= isatty(STDERR_FILENO) != 0;
      code = is_in_job() ? measure_here(options) : start_ranks(to_arguments(options), ranks);
    }
    if (code != 0) {
      throw CLI::RuntimeError(code);
    }
  });
}

}  // namespace ronde::cli
