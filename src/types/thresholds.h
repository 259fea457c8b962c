// Thresholds: which way an all-reduce takes by its bytes, one row of the table (collectives/tuning/table.h). Here
// because agreement carries it: ranks with different rows would wait for each other for ever.
#pragma once

#include <cstdint>

namespace ronde {

/// In bytes.
struct Thresholds {
  std::uint64_t inlined = 56;     ///< private tensors up to this lie in the flag's own line (buckets)
  std::uint64_t one_shot = 8192;  ///< up to this everybody reads everything, one wait; above two phases
  std::uint64_t staged = 262144;  ///< buckets up to this have slots of their own; above: ordered
  std::uint64_t chunk = 131072;   ///< what is larger goes in chunks of at most this, so that the staging stays in cache
  std::uint64_t stream = 8388608;  ///< from this on results that are out of place are stored past the caches
  bool operator==(const Thresholds&) const = default;
};

}  // namespace ronde
