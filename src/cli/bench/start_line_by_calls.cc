#include "cli/bench/start_line_by_calls.h"

#include <ronde/ronde.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "cli/bench/job_call.h"

namespace ronde::cli {

namespace {

/// What of an entry others read.
constexpr std::size_t kNumbers = 4;

std::array<double, kNumbers> numbers_of(const StartLineEntry& entry) {
  return {entry.seconds, entry.compute_seconds, static_cast<double>(entry.has_failed),
          static_cast<double>(entry.is_last)};
}

}  // namespace

StartLine StartLineByCalls::line() {
  return StartLine(entries_.data(), rank_, static_cast<int>(entries_.size()), [this] { return exchange(); });
}

std::string StartLineByCalls::exchange() {
  std::vector<double> all(entries_.size() * kNumbers);  // of others zeros, so that the sum is what each has
  const auto own = static_cast<std::size_t>(rank_);
  const std::array<double, kNumbers> mine = numbers_of(entries_[own]);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(own * kNumbers));
  const auto count = static_cast<std::int64_t>(all.size());
  const ronde_tensor tensor = {sizeof tensor, all.data(), &count, 1, RONDE_FLOAT64, RONDE_HOST, 0};
  if (call_in_job(RONDE_ALLREDUCE, "bench.start_line", &tensor) != RONDE_OK) {
    return std::string("meeting at the start line: ") + ronde_last_error();
  }
  for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
    if (rank != own) {
      const double* const numbers = all.data() + rank * kNumbers;
      entries_[rank].seconds = numbers[0];
      entries_[rank].compute_seconds = numbers[1];
      entries_[rank].has_failed = static_cast<std::uint32_t>(numbers[2]);
      entries_[rank].is_last = static_cast<std::uint32_t>(numbers[3]);
    }
  }
  return "";
}

}  // namespace ronde::cli
