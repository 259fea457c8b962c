// The coordinator's part in replay, by itself. What it comes to in the log: coordinator_plans_test.cc.
#include "agreement/epochs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agreement/testing/layout.h"

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class EpochsTest : public testing::Test {
 protected:
  /// Both members have requested it, and it is answered.
  void answer(const std::string& name) {
    HeldRequest held;
    held.has = {true, true};
    held.count = 2;
    held.asked = position_;
    Descriptor descriptor;
    descriptor.tensors = {{DType::float32, {100}}};
    held.descriptors = {descriptor, descriptor};
    epochs_.on_exec(name, held, {}, ++position_);
  }
  /// Twice, so that it is planned; the bucket's number.
  std::uint32_t plan(const std::string& name) {
    answer(name);
    answer(name);
    const std::vector<control::PrepareEntry> entries = epochs_.prepare(true);
    EXPECT_EQ(entries.size(), 1u);
    return entries.empty() ? 0 : entries.front().bucket.id;
  }
  void prepared_by_all(std::uint32_t bucket) {
    ASSERT_TRUE(epochs_.on_prepared(0, {bucket, false}));
    ASSERT_TRUE(epochs_.on_prepared(1, {bucket, false}));
  }
  void end_of_all(std::uint32_t epoch) {
    ASSERT_TRUE(epochs_.on_end(0, {epoch, 0, {}}));
    ASSERT_TRUE(epochs_.on_end(1, {epoch, 0, {}}));
  }

  const Group group_{0, {0, 1}};
  RoomsForTests rooms_;
  Epochs epochs_{group_, {4000, 400, {56, 500}}, &rooms_};
  std::uint64_t position_ = 0;
};

TEST_F(EpochsTest, InstallsWhatAllHavePrepared) {
  const std::uint32_t bucket = plan("x");
  EXPECT_FALSE(epochs_.put_in_force());
  ASSERT_TRUE(epochs_.on_prepared(0, {bucket, false}));
  EXPECT_FALSE(epochs_.put_in_force()) << "one has not";
  ASSERT_TRUE(epochs_.on_prepared(1, {bucket, false}));
  const std::optional<Epochs::InForce> in_force = epochs_.put_in_force();
  ASSERT_TRUE(in_force);
  EXPECT_EQ(std::get<control::InstallEntry>(in_force->entry).epoch, 1u);
  EXPECT_THAT(in_force->names, ElementsAre("x"));
  EXPECT_TRUE(epochs_.is_running());
  EXPECT_FALSE(epochs_.put_in_force()) << "once";
}

TEST_F(EpochsTest, AddsToARunningEpochUntilTheFirstMemberHasLeftIt) {
  prepared_by_all(plan("x"));
  ASSERT_TRUE(epochs_.put_in_force());
  prepared_by_all(plan("y"));
  const std::optional<Epochs::InForce> added = epochs_.put_in_force();
  ASSERT_TRUE(added);
  EXPECT_EQ(std::get<control::AddEntry>(added->entry).epoch, 1u);
  prepared_by_all(plan("z"));
  ASSERT_TRUE(epochs_.on_end(0, {1, 0, {}}));
  EXPECT_FALSE(epochs_.put_in_force());
  EXPECT_TRUE(epochs_.is_running());
  ASSERT_TRUE(epochs_.on_end(1, {1, 0, {}}));
  EXPECT_FALSE(epochs_.is_running());
}

TEST_F(EpochsTest, ABucketThatOneRefusesGoesOnceAllHaveFreedIt) {
  const std::uint32_t bucket = plan("x");
  EXPECT_TRUE(rooms_.is_taken(0));
  ASSERT_TRUE(epochs_.on_prepared(0, {bucket, false}));
  ASSERT_TRUE(epochs_.on_prepared(1, {bucket, true}));
  const std::optional<control::RetireEntry> retired = epochs_.retire();
  ASSERT_TRUE(retired);
  EXPECT_THAT(retired->buckets, ElementsAre(bucket));
  EXPECT_FALSE(epochs_.put_in_force());
  EXPECT_TRUE(rooms_.is_taken(0)) << "the member that has it may still copy there";
  ASSERT_TRUE(epochs_.on_free(0, bucket));
  EXPECT_FALSE(rooms_.is_taken(0));
  EXPECT_FALSE(rooms_.was_misused());
}

TEST_F(EpochsTest, WhatMembersCannotSayIsABug) {
  const std::uint32_t bucket = plan("x");
  EXPECT_EQ(epochs_.on_prepared(0, {bucket + 1, false}).code(), Code::internal);
  ASSERT_TRUE(epochs_.on_prepared(0, {bucket, false}));
  EXPECT_EQ(epochs_.on_prepared(0, {bucket, false}).code(), Code::internal) << "twice";
  EXPECT_EQ(epochs_.on_free(0, bucket + 1).code(), Code::internal);
  EXPECT_EQ(epochs_.on_end(0, {1, 0, {}}).code(), Code::internal) << "none runs";
}

TEST_F(EpochsTest, AskForABreakOnceTooManyBucketsAreInUse) {
  epochs_.set_many(2);
  prepared_by_all(plan("x"));
  ASSERT_TRUE(epochs_.put_in_force());
  EXPECT_FALSE(epochs_.wants_break());
  prepared_by_all(plan("y"));
  ASSERT_TRUE(epochs_.put_in_force());
  EXPECT_TRUE(epochs_.wants_break());
  end_of_all(1);
  EXPECT_FALSE(epochs_.wants_break()) << "none runs";
}

TEST(Epochs, WithoutALayoutPlanNothing) {
  const Group group{0, {0, 1}};
  EXPECT_FALSE(Epochs(group, {}, nullptr).plans());
}

}  // namespace
}  // namespace ronde::agreement
