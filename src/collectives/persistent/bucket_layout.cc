#include "collectives/persistent/bucket_layout.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/round_up.h"
#include "collectives/persistent/ordered_lane.h"

namespace ronde::collectives {

namespace {

transport::HeapRange behind_lane(std::uint64_t heap_bytes, int ranks) {
  const auto end = static_cast<std::int64_t>(heap_bytes);
  const std::size_t lane = round_up(OrderedLane::bytes(ranks), kBucketLineBytes);
  return {std::min(end, static_cast<std::int64_t>(lane)), end};
}

}  // namespace

std::string_view bucket_kind_name(BucketKind kind) {
  switch (kind) {
    case BucketKind::inlined: return "inline";
    case BucketKind::staged: return "staged";
    case BucketKind::ordered: return "ordered";
    case BucketKind::direct: return "direct";
  }
  return "unknown";
}

std::string layout_text(const HostLayout& layout) {
  ByteWriter writer;
  writer.put(static_cast<std::int32_t>(layout.kind));
  writer.put(layout.line);
  writer.put(layout.slots);
  const std::vector<std::byte> bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<HostLayout> read_layout(std::string_view text) {
  ByteReader reader({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  HostLayout layout;
  const auto kind = reader.get<std::int32_t>();
  layout.kind = static_cast<BucketKind>(kind);
  layout.line = reader.get<std::int64_t>();
  layout.slots = reader.get<std::int64_t>();
  const bool is_kind = kind >= 0 && kind <= static_cast<std::int32_t>(BucketKind::direct);
  const bool is_one = reader.ok() && reader.at_end() && is_kind && layout.line >= 0;
  return is_one ? std::optional(layout) : std::nullopt;
}

std::uint64_t line_bytes(BucketKind kind) {
  return kind == BucketKind::inlined ? 2 * kBucketLineBytes : kBucketLineBytes;
}

std::uint64_t slots_bytes(BucketKind kind, std::uint64_t payload) {
  return kind == BucketKind::staged ? 4 * round_up(payload, kBucketLineBytes) : 0;
}

std::uint64_t slot_offset(std::uint64_t payload, SlotUse use, std::uint64_t instance) {
  const std::uint64_t index = instance % 2 * 2 + static_cast<std::uint64_t>(use);
  return index * round_up(payload, kBucketLineBytes);
}

HostLayouts::HostLayouts(std::uint64_t heap_bytes, int ranks) : map_(behind_lane(heap_bytes, ranks)) {}

BucketKind HostLayouts::kind_of(const Bucket& bucket, const ByteLimits& limits) {
  if (!bucket.members.front().places.empty()) {
    return BucketKind::direct;
  }
  const std::uint64_t inline_max =
      has_unnamed(bucket) ? std::min(limits.inline_max, kInlineBesideCalls) : limits.inline_max;
  const std::uint64_t bytes = payload_bytes(bucket);
  if (bytes <= inline_max) {
    return BucketKind::inlined;
  }
  return bytes <= limits.staged_max ? BucketKind::staged : BucketKind::ordered;
}

std::optional<BucketLayout::Placed> HostLayouts::place_as(BucketKind kind, std::uint64_t payload) {
  const std::optional<std::int64_t> line = map_.allocate(line_bytes(kind), transport::kLineAlign);
  if (!line) {
    return std::nullopt;
  }
  HostLayout layout{kind, *line, kNoOffset};
  if (const std::uint64_t bytes = slots_bytes(kind, payload); bytes > 0) {
    const std::optional<std::int64_t> slots = map_.allocate(bytes, transport::kPageAlign);
    if (!slots) {
      map_.free(*line);
      return std::nullopt;
    }
    layout.slots = *slots;
  }
  return Placed{layout_text(layout), kind != BucketKind::inlined};
}

void HostLayouts::take_back(const Bucket& bucket) {
  if (const std::optional<HostLayout> layout = read_layout(bucket.layout)) {
    map_.free(layout->line);
    if (layout->slots != kNoOffset) {
      map_.free(layout->slots);
    }
  }
}

}  // namespace ronde::collectives
