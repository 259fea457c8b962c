// Bucket: what replay agrees on as one thing: a fixed list of named requests that are reduced together, again and
// again, without a message (docs/agreement.md). Its description is agreed once (PREPARE) and is the same on every rank.
//
// How its data moves and where it lies is for its backend to say, on the coordinator's rank for all (bucket_layout.h).
// Offsets of shared tensors are each rank's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "types/memory_place.h"
#include "types/request.h"

namespace ronde {

/// Up to which payload, in bytes, private tensors go which way. Above staged_max they are ordered.
struct ByteLimits {
  std::uint64_t inline_max = 56;
  std::uint64_t staged_max = 64 << 10;
  bool operator==(const ByteLimits&) const = default;
};

inline constexpr std::uint64_t kBucketLineBytes =
    128;  ///< one writer's line; two cache lines, which are fetched in pairs

struct BucketMember {
  std::string name;
  Descriptor descriptor;     ///< whose memory_place is not known
  MemoryPlaces places = {};  ///< empty: every rank takes its tensor for private, wherever it lies
  /// Unnamed calls take this place, each under a name of its own: their planning name; else empty.
  std::string planning_name = {};
  /// Which of the places of that planning name it is: its calls take them in turn.
  std::uint32_t turn = 0;
  bool is_unnamed() const { return !planning_name.empty(); }
  bool operator==(const BucketMember&) const = default;
};

struct Bucket {
  std::uint32_t id = 0;  ///< counts from 0 in its group and is never used again: an index
  /// An instance is complete once all ranks have said that they have done it. False: once all have published it and
  /// this rank has read that. Its backend says which.
  bool has_done_words = true;
  /// How its data moves and where it lies: bytes of its backend, which mean something to backends only.
  std::string layout = {};
  /// A member's place is its index here. The payload is their tensors, one after the other without gaps; all are of one
  /// data type, reduction and scale.
  std::vector<BucketMember> members;
  bool operator==(const Bucket&) const = default;
};

/// Whether unnamed calls take part: then the ranks compare which calls have met (docs/agreement.md, "Unnamed calls").
bool has_unnamed(const Bucket& bucket);
/// Bytes of all tensors of the descriptor.
std::uint64_t payload_bytes(const Descriptor& descriptor);
std::uint64_t payload_bytes(const Bucket& bucket);

/// Whether a request with this descriptor may take the member's place, on the rank with this index in the group.
bool fits(const BucketMember& member, const Descriptor& descriptor, int index);

}  // namespace ronde
