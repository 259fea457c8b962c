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

/// How the data of a bucket moves. The protocol is the same for all; only what completes an instance differs
/// (Bucket::has_done_words).
enum class BucketKind : std::int32_t {
  inlined = 0,  ///< the payload lies in the flag's line; complete once all have published, there is no done flag
  staged = 1,   ///< private tensors through input and result slots
  ordered = 2,  ///< private and larger: through chunk slots that all ordered buckets share, in the leader's order
  direct = 3,   ///< the tensors themselves lie where all ranks reach them
};

/// "inline", ...; "unknown" for a number that names no kind.
std::string_view bucket_kind_name(BucketKind kind);

/// Most payload of an inline bucket in which unnamed calls take part: the rest of its line says which calls they are.
inline constexpr std::uint64_t kInlineBesideCalls = 48;

/// Offsets in bytes from the beginning of each rank's heap.
struct HostLayout {
  BucketKind kind = BucketKind::inlined;
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
/// Bytes at HostLayout::slots of a bucket with so many bytes of payload; 0 where there are no slots.
std::uint64_t slots_bytes(BucketKind kind, std::uint64_t payload);

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
  static BucketKind kind_of(const Bucket& bucket, const ByteLimits& limits);
  std::optional<Placed> place(const Bucket& bucket, const ByteLimits& limits) override {
    return place_as(kind_of(bucket, limits), payload_bytes(bucket));
  }
  /// The same for a kind and bytes of payload.
  std::optional<Placed> place_as(BucketKind kind, std::uint64_t payload);
  void take_back(const Bucket& bucket) override;

 private:
  transport::HeapMap map_;
};

}  // namespace ronde::collectives
