#include "agreement/negotiator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

using testing::HasSubstr;

class NegotiatorTest : public testing::Test {
 protected:
  Status submit(const std::string& name) { return negotiator_.on_submit(name, {}, 7 * kSecond, kNever, message_); }
  Negotiator::Outcome read(const control::Message& entry) {
    Result<Negotiator::Outcome> outcome = negotiator_.on_log(entry);
    EXPECT_TRUE(outcome) << outcome.status().message();
    return outcome ? std::move(*outcome) : Negotiator::Outcome{};
  }
  static control::Message error(const std::string& name) {
    return control::ErrorEntry{name, Code::timed_out, 2, "too late"};
  }
  static control::Message exec(const std::string& name) { return control::ExecEntry{{{name, {}}}}; }

  Negotiator negotiator_{Group{0, {0, 1, 2}}, 1};
  std::optional<control::RequestMessage> message_;
};

TEST_F(NegotiatorTest, SubmitSendsOneRequestWithTheLabel) {
  ASSERT_TRUE(submit("x"));
  ASSERT_TRUE(message_);
  EXPECT_EQ(message_->name, "x");
  EXPECT_EQ(message_->label, 0u);
  read(error("x"));
  ASSERT_TRUE(submit("x"));
  EXPECT_EQ(message_->label, 1u);
}

TEST_F(NegotiatorTest, ExecGivesWhatWasAgreed) {
  ASSERT_TRUE(submit("x"));
  const auto outcome = read(exec("x"));
  ASSERT_EQ(outcome.agreed.size(), 1u);
  EXPECT_EQ(outcome.agreed[0].name, "x");
}

TEST_F(NegotiatorTest, ExecOfWhatWasNeverSubmittedIsABug) {
  EXPECT_EQ(negotiator_.on_log(exec("x")).status().code(), Code::internal);
}

TEST_F(NegotiatorTest, ErrorFailsTheOutstandingRequest) {
  ASSERT_TRUE(submit("x"));
  const auto outcome = read(error("x"));
  ASSERT_EQ(outcome.failed.size(), 1u);
  EXPECT_EQ(outcome.failed[0].second.code(), Code::timed_out);
  EXPECT_EQ(outcome.failed[0].second.message(), "too late");
  EXPECT_EQ(outcome.failed[0].second.failed_rank(), 2);
  EXPECT_EQ(outcome.failed[0].second.tensor(), "x");
}

// Replay protocol, trap 10: the error of a request not made yet is owed, as often as it was logged.
TEST_F(NegotiatorTest, AnErrorBeforeTheSubmissionIsOwedToEachOne) {
  read(error("x"));
  read(error("x"));
  for (int i = 0; i < 2; ++i) {
    message_.reset();
    EXPECT_EQ(submit("x").code(), Code::timed_out);
    EXPECT_FALSE(message_);
  }
  EXPECT_TRUE(submit("x"));
  EXPECT_TRUE(message_);
  EXPECT_TRUE(submit("y"));
}

TEST_F(NegotiatorTest, AnotherRankLeftFailsEverythingNowAndLater) {
  ASSERT_TRUE(submit("x"));
  const auto outcome = read(control::LeftEntry{2});
  ASSERT_EQ(outcome.failed.size(), 1u);
  EXPECT_EQ(outcome.failed[0].second.code(), Code::peer_left);
  EXPECT_EQ(outcome.failed[0].second.failed_rank(), 2);
  EXPECT_THAT(outcome.failed[0].second.message(), HasSubstr("rank 2 has left"));
  EXPECT_EQ(submit("y").code(), Code::peer_left);
  EXPECT_FALSE(negotiator_.self_left());
}

TEST_F(NegotiatorTest, LeavingItselfCancels) {
  ASSERT_TRUE(submit("x"));
  EXPECT_EQ(read(control::LeftEntry{1}).failed.at(0).second.code(), Code::cancelled);
  EXPECT_TRUE(negotiator_.self_left());
  EXPECT_FALSE(negotiator_.all_left());
  read(control::AllLeftEntry{});
  EXPECT_TRUE(negotiator_.all_left());
}

TEST_F(NegotiatorTest, AnAnswerThatNeverComesIsNoticed) {
  ASSERT_TRUE(submit("x"));
  EXPECT_FALSE(negotiator_.overdue(9 * kSecond, 3 * kSecond));
  EXPECT_EQ(negotiator_.overdue(10 * kSecond, 3 * kSecond), "x");
  read(exec("x"));
  EXPECT_FALSE(negotiator_.overdue(100 * kSecond, 0));
}

TEST_F(NegotiatorTest, CloseReturnsWhatIsOutstanding) {
  ASSERT_TRUE(submit("x"));
  EXPECT_THAT(negotiator_.close(Status::error(Code::peer_lost, "gone")), testing::ElementsAre("x"));
  EXPECT_EQ(submit("y").code(), Code::peer_lost);
}

}  // namespace
}  // namespace ronde::agreement
