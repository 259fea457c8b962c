// What to measure, as given on the command line.
#pragma once

#include <ronde/ronde.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ronde::cli {

enum class BenchOp { allreduce, broadcast, allgather, barrier };
/// How the call is made: by name each time, or through a slot registered once.
enum class BenchForm { name, slot };

std::optional<BenchOp> parse_bench_op(std::string_view text);
std::string_view bench_op_name(BenchOp op);
std::string_view bench_form_name(BenchForm form);

/// The types that can be filled with known numbers and verified.
const std::vector<std::string>& bench_dtype_names();
/// Nothing for a name that is none of them.
std::optional<ronde_dtype> parse_bench_dtype(std::string_view text);

struct BenchOptions {
  BenchOp op = BenchOp::allreduce;
  BenchForm form = BenchForm::name;
  std::string dtype = "float32";
  std::vector<std::uint64_t> bytes = {};  ///< of one rank's input
  std::uint64_t iterations = 0;           ///< timed calls for each size; 0: iterations_for()
  bool in_place = false;
  bool json = false;
  bool progress = false;  ///< rank 0 tells on standard error how far it is
};

/// Why these options make no sense together, as a sentence; empty if they do.
std::string check_options(const BenchOptions& options);

/// The words after "ronde" that ask for the same on a rank.
std::vector<std::string> to_arguments(const BenchOptions& options);

/// Timed calls by default: many where they are short, and so few for the largest that a sweep stays within seconds.
std::uint64_t iterations_for(std::uint64_t bytes);
/// Calls before them that are not timed.
std::uint64_t warm_up_for(std::uint64_t iterations);

}  // namespace ronde::cli
