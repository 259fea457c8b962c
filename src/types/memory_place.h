// Where a tensor lies in the heaps: each rank of a host has one, which all of them map (docs/architecture.md).
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace ronde {

/// Bytes from the beginning of a rank's heap; this: the tensor does not lie in it.
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

/// One for each member of the group, by index; empty if the tensor is private memory on any of them. Offsets
/// may differ, since every rank allocates for itself, but all lie alike within a line (kBucketLineBytes).
using MemoryPlaces = std::vector<MemoryPlace>;

/// Bytes of one rank's heap.
struct MemorySpan {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

void write(ByteWriter& writer, const MemoryPlace& place);
MemoryPlace read_memory_place(ByteReader& reader);
void write(ByteWriter& writer, const MemoryPlaces& places);
MemoryPlaces read_memory_places(ByteReader& reader);

}  // namespace ronde
