// A rank's computing between two tensors, for --overlap.
#pragma once

#include <cstdint>

namespace ronde::cli {

/// The same arithmetic each time, and no time asked: what a loop that watches the clock loses to another thread on its
/// core, it never misses, and communication that steals from the computing would look free.
class Compute {
 public:
  Compute() = default;
  /// Finds out how much arithmetic takes so long here; some milliseconds.
  explicit Compute(double microseconds);
  void run() const;

 private:
  std::uint64_t rounds_ = 0;
};

}  // namespace ronde::cli
