#include "collectives/persistent/bucket_layout.h"

#include <gtest/gtest.h>

#include "collectives/persistent/ordered_lane.h"

namespace ronde::collectives {
namespace {

Bucket bucket_of(std::int64_t elements) {
  Bucket bucket;
  bucket.members.resize(1);
  bucket.members.front().descriptor.tensors = {{DType::float32, {elements}}};
  return bucket;
}

std::optional<HostLayout> placed(HostLayouts& layouts, BucketKind kind, std::uint64_t payload) {
  const std::optional<BucketLayout::Placed> made = layouts.place_as(kind, payload);
  return made ? read_layout(made->layout) : std::nullopt;
}

TEST(BucketLayout, BytesOfLinesAndSlots) {
  EXPECT_EQ(line_bytes(BucketKind::inlined), 256u);
  EXPECT_EQ(line_bytes(BucketKind::direct), 128u);
  EXPECT_EQ(slots_bytes(BucketKind::staged, 172), 4u * 256);
  EXPECT_EQ(slots_bytes(BucketKind::ordered, 12), 0u);
}

TEST(BucketLayout, FourSlotsThatDoNotOverlap) {
  EXPECT_EQ(slot_offset(160, SlotUse::input, 2), 0u);
  EXPECT_EQ(slot_offset(160, SlotUse::result, 2), 256u);
  EXPECT_EQ(slot_offset(160, SlotUse::input, 1), 512u);
  EXPECT_EQ(slot_offset(160, SlotUse::result, 3), 768u);
}

TEST(BucketLayout, ItsTextIsReadBackAndNoOtherIs) {
  const HostLayout layout{BucketKind::direct, 256, 8192};
  EXPECT_EQ(read_layout(layout_text(layout)), layout);
  EXPECT_EQ(read_layout(""), std::nullopt);
  EXPECT_EQ(read_layout(layout_text(layout) + "x"), std::nullopt);
  EXPECT_EQ(read_layout(layout_text(layout).substr(1)), std::nullopt);
  EXPECT_EQ(read_layout(layout_text({BucketKind::staged, kNoOffset, 0})), std::nullopt);
  EXPECT_EQ(read_layout(layout_text({static_cast<BucketKind>(4), 0, 0})), std::nullopt);
  EXPECT_EQ(read_layout(layout_text({static_cast<BucketKind>(-1), 0, 0})), std::nullopt);
}

TEST(HostLayouts, KindsByPlaceAndBytes) {
  const ByteLimits limits{56, 500};
  const auto kind_of = [&](std::int64_t elements, MemoryPlaces places = {}, const std::string& planning_name = {}) {
    Bucket bucket = bucket_of(elements);
    bucket.members.front().places = std::move(places);
    bucket.members.front().planning_name = planning_name;
    HostLayouts layouts(OrderedLane::bytes(2) + (1 << 20), 2);
    const std::optional<BucketLayout::Placed> made = layouts.place(bucket, limits);
    EXPECT_TRUE(made);
    const BucketKind kind = read_layout(made->layout)->kind;
    EXPECT_EQ(made->has_done_words, kind != BucketKind::inlined);
    return kind;
  };
  EXPECT_EQ(kind_of(14), BucketKind::inlined);
  EXPECT_EQ(kind_of(15), BucketKind::staged);
  EXPECT_EQ(kind_of(125), BucketKind::staged);
  EXPECT_EQ(kind_of(126), BucketKind::ordered);
  EXPECT_EQ(kind_of(1, {64, 192}), BucketKind::direct);
  EXPECT_EQ(kind_of(5000, {128, 0}), BucketKind::direct);
  EXPECT_EQ(kind_of(12, {}, "calls"), BucketKind::inlined);
  EXPECT_EQ(kind_of(13, {}, "calls"), BucketKind::staged) << "its line says which calls they are";
}

TEST(HostLayouts, PrivateAndSharedTensorsAreApart) {
  const HostLayouts layouts(1 << 20, 2);
  EXPECT_EQ(layouts.fusion_class({64, 192}), layouts.fusion_class({0, 128}));
  EXPECT_NE(layouts.fusion_class({64, 192}), layouts.fusion_class({}));
}

TEST(HostLayouts, BehindTheLaneAndBackAgain) {
  const std::uint64_t lane = OrderedLane::bytes(2);
  HostLayouts layouts(lane + 16384, 2);
  Bucket staged = bucket_of(100);
  const std::optional<BucketLayout::Placed> first = layouts.place(staged, {});
  ASSERT_TRUE(first);
  const std::optional<HostLayout> place = read_layout(first->layout);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->kind, BucketKind::staged);
  EXPECT_GE(place->line, static_cast<std::int64_t>(lane));
  EXPECT_EQ(place->slots % static_cast<std::int64_t>(transport::kPageAlign), 0);
  staged.layout = first->layout;
  const std::optional<HostLayout> second = placed(layouts, BucketKind::direct, 400);
  ASSERT_TRUE(second);
  EXPECT_NE(second->line, place->line);
  EXPECT_EQ(second->slots, kNoOffset);
  layouts.take_back(staged);
  EXPECT_EQ(placed(layouts, BucketKind::staged, 400), place) << "what was taken back is given out again";
}

TEST(HostLayouts, ABucketForWhichThereIsNoRoomTakesNone) {
  HostLayouts layouts(OrderedLane::bytes(2) + 512, 2);
  EXPECT_EQ(placed(layouts, BucketKind::staged, 400), std::nullopt) << "its slots take a page";
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(placed(layouts, BucketKind::direct, 400));
  }
  HostLayouts none(0, 2);
  EXPECT_EQ(placed(none, BucketKind::direct, 4), std::nullopt);
}

TEST(BucketKind, EachHasAName) {
  EXPECT_EQ(bucket_kind_name(BucketKind::inlined), "inline");
  EXPECT_EQ(bucket_kind_name(BucketKind::staged), "staged");
  EXPECT_EQ(bucket_kind_name(BucketKind::ordered), "ordered");
  EXPECT_EQ(bucket_kind_name(BucketKind::direct), "direct");
  EXPECT_EQ(bucket_kind_name(static_cast<BucketKind>(9)), "unknown");
}

}  // namespace
}  // namespace ronde::collectives
