#include "agreement/launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

using testing::HasSubstr;

class LaunchesTest : public testing::Test {
 protected:
  LaunchesTest() { launches_.on_install({1, {0, 4}}); }
  Launches::Due full(int member, std::uint32_t bucket, std::uint64_t instance, std::uint64_t calls = 0) {
    Result<Launches::Due> due = launches_.on_full(member, {epoch_, bucket, instance, calls});
    EXPECT_TRUE(due) << due.status().message();
    return due ? *due : Launches::Due::nothing;
  }
  void expect_refused(int member, const control::FullMessage& message) {
    const Result<Launches::Due> due = launches_.on_full(member, message);
    ASSERT_FALSE(due);
    EXPECT_EQ(due.status().code(), Code::internal);
    EXPECT_THAT(due.status().message(), HasSubstr("member " + std::to_string(member)));
  }

  Launches launches_{2};
  std::uint32_t epoch_ = 1;
};

TEST_F(LaunchesTest, AnInstanceOnceAllHaveFilledIt) {
  EXPECT_EQ(full(0, 0, 1), Launches::Due::nothing);
  EXPECT_EQ(full(0, 4, 1), Launches::Due::nothing);
  EXPECT_EQ(full(1, 4, 1), Launches::Due::launch);
  EXPECT_EQ(full(1, 4, 2), Launches::Due::nothing) << "it has completed the first already";
  EXPECT_EQ(full(1, 0, 1), Launches::Due::launch);
  EXPECT_EQ(full(0, 4, 2), Launches::Due::launch);
}

TEST_F(LaunchesTest, NothingAfterBreak) {
  EXPECT_EQ(full(0, 0, 1), Launches::Due::nothing);
  EXPECT_TRUE(launches_.on_frozen({1}));
  launches_.on_break();
  EXPECT_FALSE(launches_.is_open());
  EXPECT_FALSE(launches_.on_frozen({1})) << "the others' reasons are no second break";
  EXPECT_EQ(full(1, 0, 1), Launches::Due::nothing);
  launches_.on_install({2, {0}});
  EXPECT_FALSE(launches_.on_frozen({1}));
  epoch_ = 2;
  EXPECT_EQ(full(1, 0, 1), Launches::Due::nothing) << "what one had filled in the epoch before does not count";
  EXPECT_EQ(full(0, 0, 1), Launches::Due::launch);
}

TEST_F(LaunchesTest, WhatIsAddedBeginsWithItsFirstInstance) {
  full(0, 0, 1);
  full(1, 0, 1);
  launches_.on_add({1, {7}});
  EXPECT_EQ(full(0, 7, 1), Launches::Due::nothing);
  EXPECT_EQ(full(1, 7, 1), Launches::Due::launch);
  EXPECT_EQ(full(0, 0, 2), Launches::Due::nothing);
}

TEST_F(LaunchesTest, OtherUnnamedCallsEndTheEpoch) {
  EXPECT_EQ(full(0, 0, 1, 17), Launches::Due::nothing);
  EXPECT_EQ(full(1, 0, 1, 18), Launches::Due::stop);
}

TEST_F(LaunchesTest, WhatCannotBeIsRefused) {
  expect_refused(0, {1, 5, 1, 0});
  expect_refused(0, {1, 0, 2, 0});
  expect_refused(0, {2, 0, 1, 0});
  full(0, 0, 1);
  expect_refused(0, {1, 0, 1, 0});
}

}  // namespace
}  // namespace ronde::agreement
