#include "store/meetings.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::store {
namespace {

using testing::HasSubstr;

Value value_of(int number) { return {{static_cast<std::byte>(number)}, {}}; }

TEST(Meetings, EndsWhenTheLastHasCome) {
  Meetings meetings;
  EXPECT_EQ(meetings.join(11, "s", 1, 3, value_of(1), kSecond, 0).value(), nullptr);
  EXPECT_EQ(meetings.join(10, "s", 0, 3, value_of(0), kSecond, 0).value(), nullptr);
  const auto complete = meetings.join(12, "s", 2, 3, value_of(2), kSecond, 0).value();
  ASSERT_NE(complete, nullptr);
  EXPECT_THAT(complete->members, testing::ElementsAre(10, 11, 12));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(complete->values[static_cast<std::size_t>(rank)].bytes[0], static_cast<std::byte>(rank));
  }
  EXPECT_EQ(meetings.open_count(), 0u) << "the scope is forgotten";
  EXPECT_EQ(meetings.next_deadline(), kNever);
}

TEST(Meetings, ScopesAreApart) {
  Meetings meetings;
  EXPECT_EQ(meetings.join(1, "a", 0, 2, value_of(0), kSecond, 0).value(), nullptr);
  EXPECT_EQ(meetings.join(2, "b", 1, 2, value_of(0), kSecond, 0).value(), nullptr);
  EXPECT_EQ(meetings.open_count(), 2u);
  EXPECT_NE(meetings.join(3, "a", 1, 2, value_of(0), kSecond, 0).value(), nullptr);
  EXPECT_EQ(meetings.open_count(), 1u);
}

TEST(Meetings, ASecondClaimIsRefused) {
  Meetings meetings;
  EXPECT_TRUE(meetings.join(1, "s", 0, 2, value_of(0), kSecond, 0));
  EXPECT_EQ(meetings.join(2, "s", 0, 2, value_of(0), kSecond, 0).status().code(), Code::invalid_argument);
  EXPECT_EQ(meetings.join(3, "s", 1, 3, value_of(0), kSecond, 0).status().code(), Code::invalid_argument);
  EXPECT_EQ(meetings.holder("s", 0), 1u) << "the first keeps its place";
  EXPECT_NE(meetings.join(4, "s", 1, 2, value_of(0), kSecond, 0).value(), nullptr);
}

TEST(Meetings, WhoComesAfterAllHaveMetIsToldThatAnotherIsThatRank) {
  Meetings meetings;
  EXPECT_TRUE(meetings.join(1, "s", 0, 2, value_of(0), kSecond, 0));
  EXPECT_NE(meetings.join(2, "s", 1, 2, value_of(0), kSecond, 0).value(), nullptr);
  EXPECT_TRUE(meetings.join(3, "s", 1, 2, value_of(0), kSecond, 0));
  EXPECT_TRUE(meetings.join(4, "t", 1, 2, value_of(0), kSecond, 0));
  const std::vector<Expired> expired = meetings.expire(2 * kSecond);
  ASSERT_EQ(expired.size(), 2u);
  EXPECT_EQ(expired[0].status.code(), Code::timed_out);
  EXPECT_NE(expired[0].status.message().find("another one is, or was, rank 1"), std::string::npos);
  EXPECT_EQ(expired[1].status.message().find("another"), std::string::npos);
}

TEST(Meetings, WhoLeavesWithdrawsAndMayBeReplaced) {
  Meetings meetings;
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  Value value;
  value.descriptors.emplace_back(fd);
  EXPECT_TRUE(meetings.join(1, "s", 0, 2, std::move(value), kSecond, 0));
  meetings.leave(1);
  EXPECT_EQ(meetings.open_count(), 0u);
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "its descriptors are closed";
  EXPECT_EQ(meetings.join(2, "s", 1, 2, value_of(1), kSecond, 0).value(), nullptr);
  EXPECT_NE(meetings.join(3, "s", 0, 2, value_of(0), kSecond, 0).value(), nullptr);
  meetings.leave(99);  // waits nowhere: nothing happens
}

TEST(Meetings, TimeOutNamesWhoIsMissing) {
  Meetings meetings;
  EXPECT_TRUE(meetings.join(1, "init/1", 0, 4, value_of(0), 2 * kSecond, 0));
  EXPECT_TRUE(meetings.join(2, "init/1", 2, 4, value_of(0), 3 * kSecond, 0));
  EXPECT_EQ(meetings.next_deadline(), 2 * kSecond);
  EXPECT_TRUE(meetings.expire(2 * kSecond - 1).empty());
  const auto first = meetings.expire(2 * kSecond);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].client, 1u);
  EXPECT_EQ(first[0].status.code(), Code::timed_out);
  EXPECT_THAT(first[0].status.message(),
              HasSubstr("Timed out after 2.0 s: 2 of 4 ranks have come to 'init/1'; missing: rank 1, 3."));
  const auto second = meetings.expire(3 * kSecond);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_THAT(second[0].status.message(), HasSubstr("missing: rank 1, 3.")) << "rank 0 came: it is not the culprit";
  EXPECT_EQ(meetings.open_count(), 0u);
}

TEST(Meetings, TimeOutAfterAllCameAtDifferentTimesNamesWhoLeft) {
  Meetings meetings;
  EXPECT_TRUE(meetings.join(1, "s", 0, 2, value_of(0), kSecond, 0));
  EXPECT_TRUE(meetings.join(2, "s", 1, 3, value_of(0), kSecond, 0).status().code() == Code::invalid_argument);
  EXPECT_EQ(meetings.expire(kSecond).size(), 1u);
  EXPECT_TRUE(meetings.join(3, "t", 0, 3, value_of(0), kSecond, 0));
  EXPECT_TRUE(meetings.join(4, "t", 1, 3, value_of(0), 5 * kSecond, 0));
  EXPECT_EQ(meetings.expire(kSecond).size(), 1u);  // rank 0 gives up
  EXPECT_TRUE(meetings.join(5, "t", 2, 3, value_of(0), 9 * kSecond, kSecond));
  const auto expired = meetings.expire(5 * kSecond);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_THAT(expired[0].status.message(), HasSubstr("missing: rank 0."));
}

TEST(Meetings, WithoutLimitNobodyExpires) {
  Meetings meetings;
  EXPECT_TRUE(meetings.join(1, "s", 0, 2, value_of(0), kNever, 5));
  EXPECT_EQ(meetings.next_deadline(), kNever);
  EXPECT_TRUE(meetings.expire(kNever - 1).empty());
}

}  // namespace
}  // namespace ronde::store
