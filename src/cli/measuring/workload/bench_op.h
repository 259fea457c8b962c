// The operations that can be measured: one row each.
#pragma once

#include <ronde/ronde.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ronde::cli {

enum class BenchOp {
  allreduce,
  broadcast,
  allgather,
  barrier,
  alltoall,
  reducescatter,
  reduce,
  gather,
  scatter,
  scan,
  exscan
};

/// Whose inputs a rank must have afterwards, summed up or one after the other.
enum class BenchResult { nothing, sum_of_all, sum_up_to_own, sum_below_own, each_of_all, of_root };

struct BenchOpTraits {
  std::string_view name;
  ronde_op number;
  BenchResult result;
  bool at_root_only = false;  ///< the others have nothing to check
  bool is_share = false;      ///< of each part this rank has its share, not all of it
  bool makes_output = false;  ///< the result lies in memory that the library makes
  /// Of the bytes of one rank's input, what must pass a rank's link whatever the algorithm (report/report.h).
  double (*bus_factor)(double ranks);
};

const BenchOpTraits& bench_traits(BenchOp op);

std::optional<BenchOp> parse_bench_op(std::string_view text);
inline std::string_view bench_op_name(BenchOp op) { return bench_traits(op).name; }
/// The names of all of them, and the same as a list in a sentence.
std::vector<std::string> bench_op_names();
std::string bench_op_choice();
/// Whether its result lies in memory that the library makes.
inline bool makes_output(BenchOp op) { return bench_traits(op).makes_output; }

}  // namespace ronde::cli
