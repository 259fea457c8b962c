#include "cli/measuring/summary.h"

#include <algorithm>
#include <cstddef>

namespace ronde::cli {

Summary summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t count = seconds.size();
  const double median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
  // The k-th smallest with k = ceil(0.99 * count), counted from 1.
  const double p99 = seconds[(99 * count + 99) / 100 - 1];
  return {.min_us = seconds.front() * 1e6, .median_us = median * 1e6, .p99_us = p99 * 1e6};
}

Bandwidth bandwidth(BenchOp op, std::uint64_t bytes, int ranks, double seconds) {
  if (bytes == 0 || seconds <= 0) {
    return {};
  }
  const double algorithm = static_cast<double>(bytes) / seconds;
  return {algorithm, algorithm * bench_traits(op).bus_factor(ranks)};
}

}  // namespace ronde::cli
