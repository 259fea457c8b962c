#include "cli/measuring/workload/bench_op.h"

#include <cstddef>
#include <iterator>

namespace ronde::cli {

namespace {

using Result = BenchResult;

double nothing(double) { return 0; }
double once(double ranks) { return ranks > 1 ? 1 : 0; }
double from_all(double ranks) { return ranks - 1; }
double all_but_own(double ranks) { return (ranks - 1) / ranks; }
double all_but_own_twice(double ranks) { return 2 * (ranks - 1) / ranks; }

/// By number of the enumeration.
constexpr BenchOpTraits kOps[] = {
    {.name = "allreduce", .number = RONDE_ALLREDUCE, .result = Result::sum_of_all, .bus_factor = all_but_own_twice},
    {.name = "broadcast", .number = RONDE_BROADCAST, .result = Result::of_root, .bus_factor = once},
    {.name = "allgather",
     .number = RONDE_ALLGATHER,
     .result = Result::each_of_all,
     .makes_output = true,
     .bus_factor = from_all},
    {.name = "barrier", .number = RONDE_BARRIER, .result = Result::nothing, .bus_factor = nothing},
    {.name = "alltoall",
     .number = RONDE_ALLTOALL,
     .result = Result::each_of_all,
     .is_share = true,
     .makes_output = true,
     .bus_factor = all_but_own},
    {.name = "reducescatter",
     .number = RONDE_REDUCESCATTER,
     .result = Result::sum_of_all,
     .is_share = true,
     .makes_output = true,
     .bus_factor = all_but_own},
    {.name = "reduce", .number = RONDE_REDUCE, .result = Result::sum_of_all, .at_root_only = true, .bus_factor = once},
    {.name = "gather",
     .number = RONDE_GATHER,
     .result = Result::each_of_all,
     .at_root_only = true,
     .makes_output = true,
     .bus_factor = from_all},
    {.name = "scatter",
     .number = RONDE_SCATTER,
     .result = Result::of_root,
     .is_share = true,
     .makes_output = true,
     .bus_factor = all_but_own},
    {.name = "scan", .number = RONDE_SCAN, .result = Result::sum_up_to_own, .bus_factor = once},
    {.name = "exscan", .number = RONDE_EXSCAN, .result = Result::sum_below_own, .bus_factor = once},
};
static_assert(std::size(kOps) == static_cast<std::size_t>(BenchOp::exscan) + 1);

}  // namespace

const BenchOpTraits& bench_traits(BenchOp op) { return kOps[static_cast<std::size_t>(op)]; }

std::optional<BenchOp> parse_bench_op(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i].name == text) {
      return static_cast<BenchOp>(i);
    }
  }
  return std::nullopt;
}

std::vector<std::string> bench_op_names() {
  std::vector<std::string> names;
  for (const BenchOpTraits& op : kOps) {
    names.emplace_back(op.name);
  }
  return names;
}

std::string bench_op_choice() {
  std::string text;
  for (std::size_t i = 0; i < std::size(kOps); ++i) {
    text += (i == 0 ? "" : i + 1 == std::size(kOps) ? " or " : ", ") + std::string(kOps[i].name);
  }
  return text;
}

}  // namespace ronde::cli
