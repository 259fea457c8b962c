#include "backend/shm/shm_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/loopback/loopback.h"

namespace ronde::backend {
namespace {

using collectives::BucketKind;
using testing::HasSubstr;

class ShmBucketsTest : public testing::Test {
 protected:
  Bucket bucket_of(BucketKind kind, std::int64_t elements) {
    Bucket bucket;
    bucket.id = next_++;
    bucket.has_done_words = kind != BucketKind::inlined;
    bucket.members.resize(1);
    bucket.members[0].name = "t";
    bucket.members[0].descriptor.tensors = {{DType::float32, {elements}}};
    collectives::HostLayouts layouts(world_[0]->own_heap().engine_bytes(), 2);
    bucket.layout = layouts.place_as(kind, payload_bytes(bucket))->layout;
    return bucket;
  }

  std::vector<std::unique_ptr<transport::HostArena>> world_ =
      transport::make_loopback_world(2, transport::RegionLayout::for_size(2));
  ShmBuckets buckets_{*world_[0]};
  std::uint32_t next_ = 0;
};

TEST_F(ShmBucketsTest, ARankAloneHasNoLayout) {
  const auto alone = transport::make_loopback_world(1, transport::RegionLayout::for_size(1));
  EXPECT_EQ(ShmBuckets(*alone[0]).layout(), nullptr);
}

TEST_F(ShmBucketsTest, MakesEveryKind) {
  for (const BucketKind kind : {BucketKind::inlined, BucketKind::staged, BucketKind::ordered, BucketKind::direct}) {
    Bucket bucket = bucket_of(kind, 8);
    if (kind == BucketKind::direct) {
      bucket.members[0].places = {MemoryPlace(1 << 20), MemoryPlace(2 << 20)};
    }
    auto made = buckets_.prepare(bucket, {});
    ASSERT_TRUE(made) << collectives::bucket_kind_name(kind) << ": " << made.status().message();
    EXPECT_EQ((*made)->description(), bucket);
  }
}

TEST_F(ShmBucketsTest, RefusesWhatItCannotCarryOut) {
  Bucket bucket = bucket_of(BucketKind::staged, 8);
  bucket.layout = "elsewhere";
  EXPECT_THAT(buckets_.prepare(bucket, {}).status().message(), HasSubstr("bucket 0 cannot be made: its layout"));
  EXPECT_THAT(buckets_.prepare(bucket_of(BucketKind::direct, 8), {}).status().message(), HasSubstr("lie elsewhere"));
  Bucket of_three = bucket_of(BucketKind::direct, 8);
  of_three.members[0].places.resize(3, MemoryPlace(0));
  EXPECT_THAT(buckets_.prepare(of_three, {}).status().message(), HasSubstr("lie elsewhere"));
  Bucket adasum = bucket_of(BucketKind::staged, 8);
  adasum.members[0].descriptor.reduce_op = ReduceOp::adasum;
  EXPECT_FALSE(buckets_.prepare(adasum, {}));
}

TEST_F(ShmBucketsTest, TheLaneHoldsSoManyBucketsAndNoMore) {
  std::vector<std::unique_ptr<PersistentCollective>> made;
  Bucket bucket = bucket_of(BucketKind::ordered, 8);
  for (std::uint64_t i = 0; i < collectives::OrderedLane::kEntries; ++i) {
    auto next = buckets_.prepare(bucket, {});
    ASSERT_TRUE(next) << i;
    made.push_back(std::move(*next));
  }
  EXPECT_THAT(buckets_.prepare(bucket, {}).status().message(), HasSubstr("full"));
  made.pop_back();
  EXPECT_TRUE(buckets_.prepare(bucket, {}));
}

TEST_F(ShmBucketsTest, ATensorInTheOwnHeapHasAPlaceIfItIsReducedAlone) {
  ASSERT_TRUE(world_[0]->own_heap().commit(1 << 20, 4096));
  std::byte* const at = world_[0]->heap(0) + (1 << 20);
  const auto request_of = [](void* input, void* output, OpKind kind = OpKind::allreduce) {
    Request request;
    request.kind = kind;
    request.tensors = {{{input, DType::float32, {8}, {}}, {output, DType::float32, {8}, {}}}};
    return request;
  };
  EXPECT_EQ(place_in_heap(*world_[0], request_of(at, at)), MemoryPlace(1 << 20));
  EXPECT_EQ(place_in_heap(*world_[0], request_of(at, at + 64)), MemoryPlace(1 << 20, (1 << 20) + 64));
  EXPECT_FALSE(place_in_heap(*world_[0], request_of(at + 2, at + 2)).is_known()) << "not at an element";
  EXPECT_FALSE(place_in_heap(*world_[0], request_of(at, at, OpKind::broadcast)).is_known());
  float here[8] = {};
  EXPECT_FALSE(place_in_heap(*world_[0], request_of(here, here)).is_known());
  EXPECT_FALSE(place_in_heap(*world_[0], request_of(at, here)).is_known());
}

TEST(ShmPlaces, AreOfUseIfAllLieAlikeWithinALine) {
  constexpr auto kLine = static_cast<std::int64_t>(kBucketLineBytes);
  EXPECT_TRUE(lie_alike({kLine + 8, 3 * kLine + 8}));
  EXPECT_FALSE(lie_alike({kLine + 8, 3 * kLine + 16}));
  EXPECT_TRUE(lie_alike({512, {512, 1024}}));
  EXPECT_FALSE(lie_alike({512, {512, 1028}}));
}

}  // namespace
}  // namespace ronde::backend
