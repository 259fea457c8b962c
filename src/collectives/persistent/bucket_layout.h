// Where the lines and slots of buckets lie in the heaps of a host: at the same offsets in each rank's. The
// coordinator's rank gives them out (HostLayouts), and every rank reads them from the bucket's description.
//
//     heap:   ordered lane | lines and slots of buckets ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/arena/heap_map.h"
#include "types/bucket.h"
#include "types/bucket_layout.h"

namespace ronde::collectives {

/// Bytes from the beginning of each rank's heap.
struct HostLayout {
  /// Of the rank's own flag line (two lines for inlined, alternating by the instance's parity).
  std::int64_t line = kNoOffset;
  /// Of its slots, see slot_offset(); kNoOffset unless the kind is staged.
  std::int64_t slots = kNoOffset;
  bool operator==(const HostLayout&) const = default;
};

/// As Bucket::layout has it.
std::string layout_text(const HostLayout& layout);
/// None if the text is no layout: then it is not one of this release's.
std::optional<HostLayout> read_layout(std::string_view text);

/// Bytes at HostLayout::line.
std::uint64_t line_bytes(BucketKind kind);
/// Bytes at HostLayout::slots; 0 where there are no slots.
std::uint64_t slots_bytes(const Bucket& bucket);

enum class SlotUse : std::uint32_t { input = 0, result = 1 };
/// Where the slot of an instance lies, from the first. Slots alternate by the instance's parity: a peer may be one
/// instance ahead, never two. `payload`: bytes of the bucket's. Requires: kind staged.
std::uint64_t slot_offset(std::uint64_t payload, SlotUse use, std::uint64_t instance);

/// Gives out what lies in [0, heap_bytes) of every rank's heap behind the ordered lane of so many ranks.
class HostLayouts final : public BucketLayout {
 public:
  HostLayouts(std::uint64_t heap_bytes, int ranks);

  /// All private, or all in the ranks' heaps.
  int fusion_class(const MemoryPlaces& places) const override { return places.empty() ? 0 : 1; }
  /// Direct in the heaps; else by its bytes: an inline bucket in which unnamed calls take part has less room.
  BucketKind kind_of(const Bucket& bucket, const ByteLimits& limits) const override;
  std::optional<std::string> place(const Bucket& bucket) override;
  void take_back(const Bucket& bucket) override;

 private:
  transport::HeapMap map_;
};

}  // namespace ronde::collectives
