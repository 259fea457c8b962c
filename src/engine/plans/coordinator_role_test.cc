#include "engine/plans/coordinator_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "support/log_guard.h"

namespace ronde::engine {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

control::Message barrier(const std::string& name) {
  control::RequestMessage message;
  message.name = name;
  message.descriptor.kind = OpKind::barrier;
  message.timeout = 10 * kSecond;
  return message;
}

class CoordinatorRoleTest : public testing::Test {
 protected:
  void tell(int from, control::Message message) {
    const std::optional<Status> read = role_.read(from, message, 0);
    ASSERT_TRUE(read.has_value());
    EXPECT_TRUE(*read) << read->message();
  }

  const Group group_{0, {4, 6}};
  CoordinatorRole role_{group_, kSecond};
  control::Control control_{nullptr, 0, 1};
  test::LogGuard log_;
};

TEST_F(CoordinatorRoleTest, AMessageForMembersIsLeftToThem) {
  for (const bool is_coordinator : {false, true}) {
    if (is_coordinator) {
      role_.take({}, nullptr);
    }
    control::Message entry = control::ErrorEntry();
    EXPECT_FALSE(role_.read(1, entry, 0).has_value());
    control::Message offer = control::OfferMessage();
    EXPECT_FALSE(role_.read(1, offer, 0).has_value());
  }
}

TEST_F(CoordinatorRoleTest, WhereThereIsNoneTheSenderIsNamed) {
  EXPECT_FALSE(role_);
  control::Message message = barrier("x");
  const std::optional<Status> read = role_.read(1, message, 0);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->code(), Code::internal);
  EXPECT_THAT(read->message(), HasSubstr("rank 6 took this rank for the coordinator"));
  tell(1, control::LeaveMessage{true});
  EXPECT_EQ(role_.next_timer(), kNever);
  EXPECT_FALSE(role_.publish(control_));
}

TEST_F(CoordinatorRoleTest, WhatIsAnsweredGoesToEveryMember) {
  const Group alone{0, {4}};
  CoordinatorRole role(alone, kSecond);
  role.take({}, nullptr);
  control::Message message = barrier("x");
  ASSERT_TRUE(role.read(0, message, 0).value());
  EXPECT_TRUE(role.publish(control_));
  int from = -1;
  control::Envelope envelope;
  bool answered = false;
  while (control_.receive(from, envelope).value()) {
    answered |= std::holds_alternative<control::ExecEntry>(envelope.message);
  }
  EXPECT_TRUE(answered);
  EXPECT_FALSE(role.publish(control_)) << "once";
}

TEST_F(CoordinatorRoleTest, WhatWaitsIsReportedAndThenFails) {
  role_.take({}, nullptr);
  tell(0, barrier("x"));
  EXPECT_LE(role_.next_timer(), 10 * kSecond);
  role_.check_time(2 * kSecond, 4);
  EXPECT_THAT(log_.take(), SizeIs(1));
  EXPECT_TRUE(role_->is_waiting());
  role_.check_time(11 * kSecond, 4);
  EXPECT_FALSE(role_->is_waiting());
}

}  // namespace
}  // namespace ronde::engine
