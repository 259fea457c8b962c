#include "cli/bench/bench.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/measure.h"
#include "cli/bench/options.h"
#include "cli/bench/report.h"
#include "cli/bench/sizes.h"
#include "cli/help.h"

namespace ronde::cli {

namespace {

constexpr const char* kAbout = "Measures how long collective operations take";

constexpr const char* kFooter = R"(Examples:
  ronde bench allreduce --ranks 4
  ronde bench allreduce --bytes 64K,16M --dtype bfloat16 --in-place --form slot
  ronde run -n 2 -- ronde bench broadcast --bytes 1M --json

--bytes is the size of one rank's input. All ranks start a call together, from a line in shared memory of their own; its
time is the slowest rank's. The input is written anew before each call, and every result is verified.

  algo GB/s   bytes / median (10^9 bytes a second)
  bus GB/s    what passes a rank's link whatever the algorithm: of an all-reduce on p ranks 2(p-1)/p times as much, of
              an allgather p-1 times, of a broadcast as much)";

constexpr int kDefaultRanks = 2;
constexpr const char* kDefaultBytes = "8,1K,64K,1M,16M,64M";

/// The command line, before it is understood.
struct Words {
  std::string op;
  std::string bytes = kDefaultBytes;
  std::string form = "name";
  int ranks = 0;  ///< 0: not given
  BenchOptions options;
};

bool is_in_job() { return std::getenv("RONDE_RANK") != nullptr && std::getenv("RONDE_SIZE") != nullptr; }

/// Throws CLI::ValidationError, which prints the sentence and ends with the exit code for wrong usage.
BenchOptions understood(const Words& words) {
  BenchOptions options = words.options;
  options.op = *parse_bench_op(words.op);
  if (words.form == "persistent") {
    throw CLI::ValidationError("--form", "persistent plans are not built yet; use name or slot");
  }
  options.form = words.form == "slot" ? BenchForm::slot : BenchForm::name;
  const auto sizes = parse_sizes(words.bytes);
  if (!sizes) {
    throw CLI::ValidationError("--bytes", "'" + words.bytes + "' is no list of sizes such as 8,64K,1M");
  }
  options.bytes = *sizes;
  if (const std::string wrong = check_options(options); !wrong.empty()) {
    throw CLI::ValidationError(words.op, wrong);
  }
  if (is_in_job() && words.ranks != 0 && std::to_string(words.ranks) != std::getenv("RONDE_SIZE")) {
    throw CLI::ValidationError(
        "--ranks", "this is a rank of a job of " + std::string(std::getenv("RONDE_SIZE")) + "; leave --ranks away");
  }
  return options;
}

/// Becomes `ronde run` of this very program. Returns only if that cannot be: the exit code.
int start_ranks(BenchOptions options, int ranks) {
  // The ranks' standard error is a pipe to the launcher: whether a person looks on is known here only.
  options.progress = isatty(STDERR_FILENO) != 0;
  std::string self(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0) {
    std::fprintf(stderr, "ronde bench: cannot find this program: %s\n", std::strerror(errno));
    return 1;
  }
  self.resize(static_cast<std::size_t>(length));
  std::vector<std::string> words{"ronde", "run", "--no-prefix", "-n", std::to_string(ranks), "--", self};
  for (std::string& word : to_arguments(options)) {
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

/// The line on a terminal that says how far a sweep is. Shown only once it has taken a while.
class ProgressLine {
 public:
  void show(std::uint64_t bytes, std::uint64_t done, std::uint64_t calls) {
    if (std::chrono::steady_clock::now() - begin_ < std::chrono::seconds(1)) {
      return;
    }
    std::fprintf(stderr, "\r%8s %8llu of %llu calls", size_text(bytes).c_str(), static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(calls));
    std::fflush(stderr);
    is_shown_ = true;
  }
  void erase() {
    if (is_shown_) {
      std::fprintf(stderr, "\r%*s\r", 60, "");
      std::fflush(stderr);
      is_shown_ = false;
    }
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool is_shown_ = false;
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int measure(const BenchOptions& options) {
  ProgressLine progress;
  SweepEvents events;
  events.begin = [&](int ranks) {
    if (!options.json) {
      print(table_head(options, ranks));
    }
  };
  events.measured = [&](int ranks, const Measurement& measurement) {
    progress.erase();
    print(options.json ? json_line(options, ranks, measurement) : table_row(options, ranks, measurement));
  };
  if (options.progress || isatty(STDERR_FILENO) != 0) {
    events.progress = [&](std::uint64_t bytes, std::uint64_t done, std::uint64_t calls) {
      progress.show(bytes, done, calls);
    };
  }
  const std::string failure = run_sweep(options, events);
  progress.erase();
  if (!failure.empty()) {
    std::fprintf(stderr, "ronde bench: %s\n", failure.c_str());
    return 1;
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto words = std::make_shared<Words>();
  CLI::App* const command = app.add_subcommand("bench", kAbout);
  command->formatter(std::make_shared<HelpFormatter>("bench OPERATION [OPTIONS]"));
  command->footer(kFooter);
  command->add_option("operation", words->op, "allreduce, broadcast, allgather or barrier")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"allreduce", "broadcast", "allgather", "barrier"}));
  command->add_option("--bytes", words->bytes, "sizes to measure; K, M and G are 2^10, 2^20 and 2^30")
      ->type_name("LIST")
      ->capture_default_str();
  command->add_option("-n,--ranks", words->ranks, "ranks to start (2); inside a job its ranks measure")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  command->add_option("--dtype", words->options.dtype, "type of the elements")
      ->type_name("TYPE")
      ->check(CLI::IsMember(bench_dtype_names()))
      ->capture_default_str();
  command->add_flag("--in-place", words->options.in_place, "the output takes the input's place");
  command->add_option("--iterations", words->options.iterations, "timed calls for each size; fewer the larger it is")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  command->add_option("--form", words->form, "how the call is made: by name, or by a slot registered once")
      ->type_name("FORM")
      ->check(CLI::IsMember({"name", "slot", "persistent"}))
      ->capture_default_str();
  command->add_flag("--json", words->options.json, "one JSON object a line instead of the table");
  command->add_flag("--progress", words->options.progress)->group("");
  command->callback([words] {
    const BenchOptions options = understood(*words);
    const int code =
        is_in_job() ? measure(options) : start_ranks(options, words->ranks != 0 ? words->ranks : kDefaultRanks);
    if (code != 0) {
      throw CLI::RuntimeError(code);
    }
  });
}

}  // namespace ronde::cli
