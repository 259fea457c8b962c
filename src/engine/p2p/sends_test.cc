// The sender's half, with the test as the receiver.
#include "engine/p2p/sends.h"

#include "engine/testing/pair_side.h"

namespace ronde::engine {
namespace {

constexpr std::size_t kSlotOfSends = StagingSlots::kSlotBytes;

class SendsTest : public PairSide {
 protected:
  std::vector<control::PieceMessage> advance() {
    std::size_t budget = std::size_t{64} << 20;
    sends_.advance(budget, 0);
    return told<control::PieceMessage>();
  }
  /// Offers `bytes` bytes and says ACCEPT; the offer's number.
  std::uint64_t send_long(std::size_t bytes) {
    values_.assign(bytes, 3);
    sends_.submit(ticket(OpKind::send, "s", values_), 0);
    const std::uint64_t id = told<control::OfferMessage>().at(0).id;
    EXPECT_TRUE(sends_.read(1, control::AcceptMessage{id}, 0));
    return id;
  }

  std::vector<char> values_;
  Sends sends_{*context_, *ranks_[0].memory};
};

TEST_F(SendsTest, AShortMessageGoesInTheOfferAndIsOverWhenItWasTaken) {
  values_.assign(5, 3);
  sends_.submit(ticket(OpKind::send, "s", values_), 0);
  const std::vector<control::OfferMessage> offers = told<control::OfferMessage>();
  ASSERT_EQ(offers.size(), 1u);
  EXPECT_EQ(offers[0].payload, std::string(5, 3));
  EXPECT_FALSE(sends_.is_moving()) << "nobody has taken it";
  EXPECT_TRUE(take_ends().empty());
  ASSERT_TRUE(sends_.read(1, control::TakenMessage{offers[0].id, 5}, 0));
  EXPECT_TRUE(end_of("s"));
  EXPECT_TRUE(sends_.is_empty());
}

TEST_F(SendsTest, ALongMessageWaitsForSlotsUntilTheReceiverHasTakenWhatLiesThere) {
  const std::size_t slots = StagingSlots::kSlots;
  const std::uint64_t id = send_long((slots + 1) * kSlotOfSends);
  const std::vector<control::PieceMessage> first = advance();
  ASSERT_EQ(first.size(), slots);
  EXPECT_TRUE(advance().empty()) << "all slots are in use";
  ASSERT_TRUE(sends_.read(1, control::TakenMessage{id, kSlotOfSends}, 0));
  const std::vector<control::PieceMessage> last = advance();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].place, first[0].place);
  ASSERT_TRUE(sends_.read(1, control::TakenMessage{id, values_.size()}, 0));
  EXPECT_TRUE(end_of("s"));
}

TEST_F(SendsTest, TheBudgetEndsAStep) {
  send_long(3 * kSlotOfSends);
  std::size_t budget = 1;
  EXPECT_TRUE(sends_.advance(budget, 0));
  EXPECT_EQ(budget, 0u);
  EXPECT_EQ(told<control::PieceMessage>().size(), 1u);
  EXPECT_FALSE(sends_.advance(budget, 0));
}

TEST_F(SendsTest, GivenUpInTheMiddleItKeepsItsSlotsUntilTheReceiverHasAnswered) {
  const std::uint64_t id = send_long(StagingSlots::kSlots * kSlotOfSends);
  const std::vector<control::PieceMessage> pieces = advance();
  sends_.check_time(sends_.next_deadline());
  EXPECT_EQ(end_of("s").code(), Code::timed_out) << "at once";
  EXPECT_EQ(told<control::GiveUpMessage>().size(), 1u);
  std::vector<char> others(kSlotOfSends, 4);
  sends_.submit(ticket(OpKind::send, "next", others), 0);
  const std::uint64_t next = told<control::OfferMessage>().at(0).id;
  ASSERT_TRUE(sends_.read(1, control::AcceptMessage{next}, 0));
  EXPECT_TRUE(advance().empty()) << "the receiver may still read the slots";
  sends_.read_give_up(1, id, Status::error(Code::timed_out, "forgotten"));
  EXPECT_EQ(advance().size(), 1u);
  EXPECT_TRUE(take_ends().empty()) << "it has ended before";
}

TEST_F(SendsTest, WhatNobodyHasTakenEndsWithTheGroupOnceTheReceiverHasAnswered) {
  values_.assign(5, 3);
  sends_.submit(ticket(OpKind::send, "s", values_), 0);
  const std::uint64_t id = told<control::OfferMessage>().at(0).id;
  sends_.close(Status::error(Code::cancelled, "shut down"));
  EXPECT_TRUE(sends_.is_moving()) << "the receiver may have it";
  EXPECT_TRUE(take_ends().empty());
  EXPECT_EQ(told<control::GiveUpMessage>().at(0).code, Code::peer_left);
  ASSERT_TRUE(sends_.read(1, control::TakenMessage{id, 5}, 0));
  EXPECT_TRUE(end_of("s")) << "it had";
  EXPECT_FALSE(sends_.is_moving());
}

TEST_F(SendsTest, WhatCannotBeIsDamage) {
  const std::uint64_t id = send_long(3 * kSlotOfSends);
  EXPECT_EQ(sends_.read(1, control::AcceptMessage{id}, 0).code(), Code::internal) << "twice";
  advance();
  EXPECT_EQ(sends_.read(1, control::TakenMessage{id, values_.size() + 1}, 0).code(), Code::internal);
  ASSERT_TRUE(sends_.read(1, control::TakenMessage{id, kSlotOfSends}, 0));
  EXPECT_EQ(sends_.read(1, control::TakenMessage{id, 1}, 0).code(), Code::internal) << "less than before";
}

TEST_F(SendsTest, OfAPeerThatHasGoneNothingIsWaitedFor) {
  send_long(3 * kSlotOfSends);
  EXPECT_TRUE(sends_.has_business_with(1));
  sends_.end_with(1, Status::error(Code::peer_left, "gone"));
  EXPECT_EQ(end_of("s").code(), Code::peer_left);
  EXPECT_FALSE(sends_.has_business_with(1));
  EXPECT_FALSE(sends_.is_moving());
}

}  // namespace
}  // namespace ronde::engine
