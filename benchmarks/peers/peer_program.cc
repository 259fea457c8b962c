#include "peer_program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/measuring/output.h"
#include "cli/measuring/workload/command_line.h"

namespace ronde::peers {

namespace {

int number_from(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

Place place_from_environment() {
  return {number_from("PEER_BENCH_RANK", number_from("PMI_RANK", 0)),
          number_from("PEER_BENCH_SIZE", number_from("PMI_SIZE", 1))};
}

cli::StartLine start_line(int rank, int size, Lines which) {
  static const cli::SharedPages pages = [] {
    const char* const path = std::getenv("PEER_BENCH_LINE");
    return cli::SharedPages::open(path == nullptr ? "" : path, 2 * kMostRanks * sizeof(cli::StartLineEntry));
  }();
  if (!pages.is_mapped()) {
    std::fprintf(stderr, "PEER_BENCH_LINE names no file that can be mapped\n");
    std::exit(1);
  }
  const bool may_spin = size <= number_from("PEER_BENCH_CORES", 1);
  auto* const first = static_cast<cli::StartLineEntry*>(pages.data());
  return cli::StartLine(which == Lines::of_loop ? first : first + kMostRanks, rank, size, may_spin);
}

int peer_main(int argc, char** argv, const Join& join) {
  CLI::App app("The measuring loop of ronde bench around another engine");
  cli::BenchWords words;
  std::string peer = "peer";
  cli::add_bench_options(app, words);
  app.add_option("--peer", peer, "its name in the output");
  cli::BenchOptions options;
  try {
    app.parse(argc, argv);
    options = cli::understood(words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const std::unique_ptr<cli::Contestant> contestant = join(options);
  if (contestant == nullptr) {
    return 1;
  }
  const cli::StartLine line = start_line(contestant->rank(), contestant->size());
  const std::string failure = cli::measure_and_print(peer, options, *contestant, line);
  if (!failure.empty()) {
    std::fprintf(stderr, "%s: rank %d: %s\n", peer.c_str(), contestant->rank(), failure.c_str());
    return 1;
  }
  return 0;
}

}  // namespace ronde::peers
