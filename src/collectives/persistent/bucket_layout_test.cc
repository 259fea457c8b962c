#include "collectives/persistent/bucket_layout.h"

#include <gtest/gtest.h>

#include "collectives/persistent/ordered_lane.h"

namespace ronde::collectives {
namespace {

Bucket bucket_of(BucketKind kind, std::vector<std::int64_t> elements) {
  Bucket bucket;
  bucket.kind = kind;
  for (std::int64_t count : elements) {
    BucketMember member;
    member.descriptor.tensors = {{DType::float32, {count}}};
    bucket.members.push_back(std::move(member));
  }
  return bucket;
}

TEST(BucketLayout, BytesOfLinesAndSlots) {
  EXPECT_EQ(line_bytes(BucketKind::inlined), 256u);
  EXPECT_EQ(line_bytes(BucketKind::direct), 128u);
  EXPECT_EQ(slots_bytes(bucket_of(BucketKind::staged, {3, 0, 40})), 4u * 256);
  EXPECT_EQ(slots_bytes(bucket_of(BucketKind::ordered, {3})), 0u);
}

TEST(BucketLayout, FourSlotsThatDoNotOverlap) {
  EXPECT_EQ(slot_offset(160, SlotUse::input, 2), 0u);
  EXPECT_EQ(slot_offset(160, SlotUse::result, 2), 256u);
  EXPECT_EQ(slot_offset(160, SlotUse::input, 1), 512u);
  EXPECT_EQ(slot_offset(160, SlotUse::result, 3), 768u);
}

TEST(BucketLayout, ItsTextIsReadBackAndNoOtherIs) {
  const HostLayout layout{256, 8192};
  EXPECT_EQ(read_layout(layout_text(layout)), layout);
  EXPECT_EQ(read_layout(""), std::nullopt);
  EXPECT_EQ(read_layout(layout_text(layout) + "x"), std::nullopt);
  EXPECT_EQ(read_layout(layout_text(layout).substr(1)), std::nullopt);
  EXPECT_EQ(read_layout(layout_text({kNoOffset, 0})), std::nullopt);
}

TEST(HostLayouts, KindsByPlaceAndBytes) {
  const HostLayouts layouts(1 << 20, 2);
  const ByteLimits limits{56, 500};
  const auto kind_of = [&](std::int64_t elements, MemoryPlaces places = {}, const std::string& planning_name = {}) {
    Bucket bucket = bucket_of(BucketKind::inlined, {elements});
    bucket.members.front().places = std::move(places);
    bucket.members.front().planning_name = planning_name;
    return layouts.kind_of(bucket, limits);
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
  Bucket staged = bucket_of(BucketKind::staged, {100});
  HostLayouts layouts(lane + 16384, 2);
  const std::optional<std::string> first = layouts.place(staged);
  ASSERT_TRUE(first);
  const std::optional<HostLayout> place = read_layout(*first);
  ASSERT_TRUE(place);
  EXPECT_GE(place->line, static_cast<std::int64_t>(lane));
  EXPECT_EQ(place->slots % static_cast<std::int64_t>(transport::kPageAlign), 0);
  staged.layout = *first;
  Bucket direct = bucket_of(BucketKind::direct, {100});
  const std::optional<std::string> second = layouts.place(direct);
  ASSERT_TRUE(second);
  EXPECT_NE(read_layout(*second)->line, place->line);
  EXPECT_EQ(read_layout(*second)->slots, kNoOffset);
  layouts.take_back(staged);
  EXPECT_EQ(layouts.place(staged), first) << "what was taken back is given out again";
}

TEST(HostLayouts, ABucketForWhichThereIsNoRoomTakesNone) {
  HostLayouts layouts(OrderedLane::bytes(2) + 512, 2);
  EXPECT_EQ(layouts.place(bucket_of(BucketKind::staged, {100})), std::nullopt) << "its slots take a page";
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(layouts.place(bucket_of(BucketKind::direct, {100})));
  }
  HostLayouts none(0, 2);
  EXPECT_EQ(none.place(bucket_of(BucketKind::direct, {1})), std::nullopt);
}

}  // namespace
}  // namespace ronde::collectives
