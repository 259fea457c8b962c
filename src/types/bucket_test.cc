#include "types/bucket.h"

#include <gtest/gtest.h>

namespace ronde {
namespace {

Bucket bucket_of(std::vector<std::int64_t> elements) {
  Bucket bucket;
  for (std::int64_t count : elements) {
    BucketMember member;
    member.name = "m" + std::to_string(bucket.members.size());
    member.descriptor.tensors = {{DType::float32, {count}}};
    bucket.members.push_back(std::move(member));
  }
  return bucket;
}

TEST(Bucket, BytesOfPayload) { EXPECT_EQ(payload_bytes(bucket_of({3, 0, 40})), 172u); }

TEST(Bucket, AMemberThatAllShareWantsEachRanksOwnPlace) {
  BucketMember member = bucket_of({4}).members[0];
  Descriptor descriptor = member.descriptor;
  EXPECT_TRUE(fits(member, descriptor, 0));
  descriptor.memory_place = 64;
  EXPECT_TRUE(fits(member, descriptor, 0)) << "a member taken for private may lie anywhere";
  member.places = {64, 192};
  EXPECT_TRUE(fits(member, descriptor, 0));
  EXPECT_FALSE(fits(member, descriptor, 1));
  descriptor.memory_place = 192;
  EXPECT_FALSE(fits(member, descriptor, 0));
  EXPECT_TRUE(fits(member, descriptor, 1));
  descriptor.tensors[0].shape = {5};
  EXPECT_FALSE(fits(member, descriptor, 1));
}

}  // namespace
}  // namespace ronde
