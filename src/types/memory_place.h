// Where a tensor lies in memory that the other ranks of its group reach (docs/architecture.md). What a place says is
// the backend's affair; others compare places and hand them on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ronde {

/// A place is a count of bytes in the rank's own memory; this: the tensor lies where nobody else reaches it.
inline constexpr std::int64_t kNoOffset = -1;

/// Where one rank has a tensor: what is read and what is written, one and the same for work in place.
struct MemoryPlace {
  std::int64_t input = kNoOffset;
  std::int64_t output = kNoOffset;

  MemoryPlace() = default;
  MemoryPlace(std::int64_t in_place) : input(in_place), output(in_place) {}  // NOLINT: a place in place is an offset
  MemoryPlace(std::int64_t from, std::int64_t to) : input(from), output(to) {}

  bool is_known() const { return input != kNoOffset; }
  bool operator==(const MemoryPlace&) const = default;
};

/// One for each member of the group, by index; empty if the tensor is private memory on any of them. They may differ,
/// since every rank allocates for itself.
using MemoryPlaces = std::vector<MemoryPlace>;

/// Whether a tensor that lies there is reduced where it lies, as far as that goes by its places: for the backend of the
/// coordinator's rank to say. Else every rank takes it for private.
using MayReduceAt = std::function<bool(const MemoryPlaces&)>;

/// Bytes of a rank's memory that others reach.
struct MemorySpan {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

}  // namespace ronde
