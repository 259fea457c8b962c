#include "cli/measuring/output.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/measuring/report/plot.h"
#include "cli/measuring/workload/sizes.h"

namespace ronde::cli {

namespace {

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

}  // namespace

std::string measure_and_print(const std::string& peer, const BenchOptions& options, Contestant& contestant,
                              StartLine line) {
  ProgressLine progress;
  SweepEvents events;
  std::vector<Measurement> sweep;
  events.begin = [&](int ranks) {
    if (!options.json) {
      print(table_head(options, ranks));
    }
  };
  events.measured = [&](int ranks, const Measurement& measurement) {
    progress.erase();
    print(options.json ? json_line(peer, options, ranks, measurement) : table_row(options, ranks, measurement));
    sweep.push_back(measurement);
  };
  if (options.progress || isatty(STDERR_FILENO) != 0) {
    events.progress = [&](std::uint64_t bytes, std::uint64_t done, std::uint64_t calls) {
      progress.show(bytes, done, calls);
    };
  }
  std::string failure = measure(options, contestant, line, events);
  progress.erase();
  if (failure.empty() && contestant.rank() == 0 && !options.plot.empty()) {
    failure = write_plot(options.plot, plot_title(options, contestant.size()), sweep);
  }
  return failure;
}

}  // namespace ronde::cli
