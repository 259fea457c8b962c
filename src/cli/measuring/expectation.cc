#include "cli/measuring/expectation.h"

namespace ronde::cli {

Expectation::Expectation(const BenchOptions& options, int rank, int size)
    : dtype(*parse_bench_dtype(options.dtype)), input(input_pattern(dtype, rank)) {
  switch (options.op) {
    case BenchOp::allreduce: results.push_back(sum_pattern(dtype, size)); break;
    case BenchOp::broadcast: results.push_back(input_pattern(dtype, 0)); break;
    case BenchOp::allgather:
      for (int other = 0; other < size; ++other) {
        results.push_back(input_pattern(dtype, other));
      }
      break;
    case BenchOp::barrier: break;
  }
}

std::string Expectation::check(const void* data, std::uint64_t bytes, std::uint64_t call) const {
  for (std::size_t part = 0; part < results.size(); ++part) {
    const auto* const begin = static_cast<const std::byte*>(data) + part * bytes;
    if (const auto wrong = results[part].first_difference(begin, bytes, call)) {
      return "wrong result of call " + std::to_string(call) + " on " + std::to_string(bytes) + " bytes, element " +
             std::to_string(part * (bytes / bench_dtype_bytes(dtype)) + *wrong);
    }
  }
  return "";
}

}  // namespace ronde::cli
