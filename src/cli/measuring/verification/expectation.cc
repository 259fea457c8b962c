#include "cli/measuring/verification/expectation.h"

#include <algorithm>

namespace ronde::cli {

std::pair<std::uint64_t, std::uint64_t> share_of(std::uint64_t elements, int rank, int ranks) {
  const auto count = static_cast<std::uint64_t>(ranks);
  const auto index = static_cast<std::uint64_t>(rank);
  const std::uint64_t more = elements % count;
  return {index * (elements / count) + std::min(index, more), elements / count + (index < more ? 1 : 0)};
}

Expectation::Expectation(const BenchOptions& options, int own_rank, int ranks)
    : dtype(*parse_bench_dtype(options.dtype)), input(input_pattern(dtype, own_rank)), rank(own_rank), size(ranks) {
  const BenchOpTraits& op = bench_traits(options.op);
  is_share = op.is_share;
  if (op.at_root_only && rank != 0) {
    return;
  }
  switch (op.result) {
    case BenchResult::nothing: break;
    case BenchResult::sum_of_all: results.push_back(sum_pattern(dtype, size)); break;
    case BenchResult::sum_up_to_own: results.push_back(sum_pattern(dtype, rank + 1)); break;
    case BenchResult::sum_below_own: results.push_back(sum_pattern(dtype, rank)); break;
    case BenchResult::of_root: results.push_back(input_pattern(dtype, 0)); break;
    case BenchResult::each_of_all:
      for (int other = 0; other < size; ++other) {
        results.push_back(input_pattern(dtype, other));
      }
      break;
  }
}

std::string Expectation::check(const void* data, std::uint64_t bytes, std::uint64_t call) const {
  const std::size_t element = bench_dtype_bytes(dtype);
  const auto [first, count] =
      is_share ? share_of(bytes / element, rank, size) : std::pair(std::uint64_t{0}, bytes / element);
  for (std::size_t part = 0; part < results.size(); ++part) {
    const auto* const begin = static_cast<const std::byte*>(data) + part * count * element;
    if (const auto wrong = results[part].first_difference(begin, count * element, call, first)) {
      return "wrong result of call " + std::to_string(call) + " on " + std::to_string(bytes) + " bytes, element " +
             std::to_string(part * count + *wrong);
    }
  }
  return "";
}

}  // namespace ronde::cli
