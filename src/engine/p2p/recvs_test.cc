// The receiver's half, with the test as the sender.
#include "engine/p2p/recvs.h"

#include <cstring>

#include "engine/testing/pair_side.h"

namespace ronde::engine {
namespace {

class RecvsTest : public PairSide {
 protected:
  control::OfferMessage offer(std::uint64_t id, std::size_t bytes, std::int32_t tag = 0) const {
    control::OfferMessage made{id, 0, tag, DType::int8, {static_cast<std::int64_t>(bytes)}, "theirs", {}};
    if (bytes <= kShortMessageBytes) {
      made.payload.assign(bytes, 3);
    }
    return made;
  }
  bool advance() {
    std::size_t budget = std::size_t{64} << 20;
    return recvs_.advance(budget, 0);
  }
  TicketPtr recv(std::size_t bytes, int peer = 1) {
    values_.assign(bytes, 0);
    return ticket(OpKind::recv, "r", values_, peer);
  }

  std::vector<char> values_;
  Recvs recvs_{*context_, *ranks_[0].memory};
};

TEST_F(RecvsTest, WhoComesSecondTakesWhatWaits) {
  for (const bool offer_first : {true, false}) {
    const TicketPtr receiving = recv(5);
    if (offer_first) {
      recvs_.read(1, offer(7, 5), 0);
      recvs_.submit(receiving, 0);
    } else {
      recvs_.submit(receiving, 0);
      recvs_.read(1, offer(7, 5), 0);
    }
    EXPECT_TRUE(end_of("r"));
    EXPECT_EQ(values_, std::vector<char>(5, 3));
    EXPECT_EQ(receiving->results().source(), 1);
    const std::vector<control::TakenMessage> taken = told<control::TakenMessage>();
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0].id, 7u);
    EXPECT_EQ(taken[0].bytes, 5u);
    EXPECT_TRUE(recvs_.is_empty());
  }
}

TEST_F(RecvsTest, ARecvOfAnotherRankOrTagTakesNothing) {
  recvs_.read(1, offer(7, 5, 4), 0);
  recvs_.submit(recv(5), 0);
  recvs_.submit(recv(5, 0), 0);
  EXPECT_TRUE(take_ends().empty());
  recvs_.read(1, offer(8, 5), 0);
  EXPECT_TRUE(end_of("r")) << "the first of the two";
  EXPECT_FALSE(recvs_.is_empty());
}

TEST_F(RecvsTest, PiecesComeFromTheSendersMemoryOrInMessages) {
  const std::size_t bytes = 3 * kShortMessageBytes;
  recvs_.submit(recv(bytes), 0);
  recvs_.read(1, offer(7, bytes), 0);
  ASSERT_EQ(told<control::AcceptMessage>().at(0).id, 7u);
  // In the sender's memory, at a place that only it chooses.
  const std::shared_ptr<void> slot = ranks_[1].memory->allocate(kShortMessageBytes).value();
  const std::int64_t place = ranks_[1].memory->place_of(slot.get(), kShortMessageBytes);
  std::memset(slot.get(), 5, kShortMessageBytes);
  ASSERT_TRUE(recvs_.read(1, control::PieceMessage{.id = 7, .bytes = kShortMessageBytes, .place = place}, 0));
  control::PieceMessage carried{.id = 7, .bytes = 2 * kShortMessageBytes};
  carried.payload.assign(carried.bytes, 6);
  ASSERT_TRUE(recvs_.read(1, std::move(carried), 0));
  EXPECT_TRUE(take_ends().empty()) << "nothing is copied where messages are read";
  EXPECT_TRUE(advance());
  EXPECT_TRUE(end_of("r"));
  EXPECT_EQ(values_.front(), 5);
  EXPECT_EQ(values_[kShortMessageBytes], 6);
  EXPECT_EQ(values_.back(), 6);
  EXPECT_EQ(told<control::TakenMessage>().back().bytes, bytes);
}

TEST_F(RecvsTest, WhatCannotBeIsDamage) {
  control::OfferMessage cut = offer(7, 5);
  cut.payload.pop_back();
  EXPECT_EQ(recvs_.check(1, cut).code(), Code::internal);
  const std::size_t bytes = 3 * kShortMessageBytes;
  EXPECT_TRUE(recvs_.check(1, offer(7, bytes)));
  recvs_.submit(recv(bytes), 0);
  recvs_.read(1, offer(7, bytes), 0);
  const auto piece = [&](std::uint64_t size, std::int64_t place) {
    return recvs_.read(1, control::PieceMessage{.id = 7, .bytes = size, .place = place}, 0).code();
  };
  EXPECT_EQ(piece(bytes + 1, 0), Code::internal) << "more than was offered";
  EXPECT_EQ(piece(0, 0), Code::internal);
  EXPECT_EQ(piece(16, std::numeric_limits<std::int64_t>::max() - 16), Code::internal) << "beyond the sender's memory";
  EXPECT_EQ(piece(16, -8), Code::internal);
  EXPECT_EQ(piece(16, kNoOffset), Code::internal) << "neither there nor in the message";
}

TEST_F(RecvsTest, TypesThatDoNotFitFailOnBothSides) {
  recvs_.submit(recv(6), 0);
  recvs_.read(1, offer(7, 5), 0);
  EXPECT_EQ(end_of("r").code(), Code::mismatch);
  const std::vector<control::GiveUpMessage> told_to_sender = told<control::GiveUpMessage>();
  ASSERT_EQ(told_to_sender.size(), 1u);
  EXPECT_EQ(told_to_sender[0].code, Code::mismatch);
  EXPECT_FALSE(told_to_sender[0].by_sender);
}

TEST_F(RecvsTest, ASenderThatGivesUpIsAnswered) {
  recvs_.read(1, offer(7, 5), 0);
  const control::GiveUpMessage gives_up{7, true, Code::timed_out, "late", 1};
  recvs_.read_give_up(1, gives_up, Status::error(Code::timed_out, "late"));
  const std::vector<control::GiveUpMessage> answers = told<control::GiveUpMessage>();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].by_sender);
  recvs_.read_give_up(1, gives_up, Status::error(Code::timed_out, "late"));
  EXPECT_TRUE(told<control::GiveUpMessage>().empty()) << "of what is not known here the sender has heard";
  recvs_.submit(recv(5), 0);
  EXPECT_TRUE(take_ends().empty()) << "the offer has gone";
}

TEST_F(RecvsTest, ARecvHasALimit) {
  recvs_.submit(recv(5), 0);
  EXPECT_EQ(recvs_.next_deadline(), kSecond);
  recvs_.check_time(kSecond - 1);
  EXPECT_TRUE(take_ends().empty());
  recvs_.check_time(kSecond);
  EXPECT_EQ(end_of("r").code(), Code::timed_out);
  EXPECT_EQ(recvs_.next_deadline(), kNever);
  EXPECT_TRUE(recvs_.is_empty());
}

TEST_F(RecvsTest, AtTheEndOffersAreRefusedAndRecvsEnd) {
  recvs_.read(1, offer(7, 5, 4), 0);
  recvs_.submit(recv(5), 0);
  recvs_.close(Status::error(Code::cancelled, "shut down"));
  EXPECT_EQ(end_of("r").code(), Code::cancelled);
  EXPECT_EQ(told<control::GiveUpMessage>().at(0).code, Code::peer_left);
  EXPECT_TRUE(recvs_.is_empty());
}

}  // namespace
}  // namespace ronde::engine
