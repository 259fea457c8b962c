// Store: where the ranks of a job meet before they can talk to each other: small values, and on one host descriptors.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/boot_id.h"
#include "base/clock.h"
#include "base/job_clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::store {

/// At most kMaxValueBytes and kMaxDescriptors.
struct Value {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;  ///< only stores of one host carry them
};
inline constexpr std::size_t kMaxValueBytes = 65536;
inline constexpr std::size_t kMaxDescriptors = 4;

class Store {
 public:
  virtual ~Store() = default;

  /// Collective: each of `size` ranks gives a value under the same scope and gets all values, in rank order, as soon
  /// as the last has come; then the scope is forgotten. Blocks up to `limit`; past it TIMED_OUT with a sentence that
  /// names the ranks that have not come. Two processes that claim one rank of a scope: the second gets
  /// INVALID_ARGUMENT. One thread at a time.
  virtual Result<std::vector<Value>> exchange(const std::string& scope, int rank, int size, Value value,
                                              Nanoseconds limit) = 0;
  /// How this host's clock stands to that of the host where the store is served. Blocks up to `limit`, past it
  /// TIMED_OUT. One thread at a time.
  virtual Result<JobClock> compare_clocks(Nanoseconds /*limit*/) { return JobClock{boot_id(), 0, 0}; }
};

}  // namespace ronde::store
