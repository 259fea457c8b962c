// The words of the command line that say what to measure: of `ronde bench` and of the peers' programs.
#pragma once

#include <string>

#include "cli/measuring/workload/options.h"

namespace CLI {
class App;
}

namespace ronde::cli {

/// The command line, before it is understood.
struct BenchWords {
  std::string op;
  std::string bytes = "8,1K,64K,1M,16M,64M";
  std::string form = "name";  ///< empty: persistent if the operation can be
  std::string gradients;
  std::string many;
  std::string mode = "async";
  BenchOptions options;
};

/// `words` must outlive the parsing.
void add_bench_options(CLI::App& command, BenchWords& words);

/// Throws CLI::ValidationError, which prints the sentence and ends with the exit code for wrong usage.
BenchOptions understood(const BenchWords& words);

}  // namespace ronde::cli
