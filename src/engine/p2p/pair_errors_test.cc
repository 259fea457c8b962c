#include "engine/p2p/pair_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

using testing::HasSubstr;

Request pair_request(OpKind kind, int peer) {
  Request made;
  made.name = "x";
  made.kind = kind;
  made.root = peer;
  made.tag = 7;
  made.timeout = 1500 * kMillisecond;
  Tensor tensor;
  tensor.dtype = DType::float32;
  tensor.shape = {3};
  made.tensors.push_back({tensor, tensor});
  return made;
}

TEST(PairErrors, OfTimeNameWhomItWaitedFor) {
  const Status sending = pair_is_late(pair_request(OpKind::send, 2));
  EXPECT_EQ(sending.code(), Code::timed_out);
  EXPECT_EQ(sending.failed_rank(), 2);
  EXPECT_THAT(sending.message(), HasSubstr("Timed out after 1.5 s in send 'x' of float32 [3] to rank 2, tag 7: rank 2 "
                                           "has not received it"));
  const Status receiving = pair_is_late(pair_request(OpKind::recv, kAnySource));
  EXPECT_THAT(receiving.message(), HasSubstr("in recv 'x' of float32 [3] from any rank, tag 7: no rank has sent it"));
}

TEST(PairErrors, TheOtherSideHearsWhoseDoingItWas) {
  const Ticket ticket(pair_request(OpKind::send, 2));
  const auto told = [&](const Status& reason) { return farewell(5, true, ticket, reason, 1); };
  EXPECT_EQ(told(pair_is_late(ticket.request())).text, "Timed out: rank 1 gave up its send 'x'");
  EXPECT_EQ(told(pair_is_cancelled(ticket, 1)).code, Code::cancelled);
  const control::GiveUpMessage left = told(Status::error(Code::cancelled, "shut down"));
  EXPECT_EQ(left.code, Code::peer_left) << "to shut down is no wish of its own to end this one";
  EXPECT_EQ(left.rank, 1);
  const control::GiveUpMessage of_another = told(Status::error(Code::peer_lost, "rank 0 died").with_rank(0));
  EXPECT_EQ(of_another.code, Code::peer_lost);
  EXPECT_EQ(of_another.text, "rank 0 died");
  EXPECT_EQ(of_another.rank, 0);
  EXPECT_EQ(of_another.id, 5u);
  EXPECT_TRUE(of_another.by_sender);
}

TEST(PairErrors, ARefusedOfferHearsThatItsReceiverHasLeft) {
  const control::GiveUpMessage left = refusal(5, Status::error(Code::cancelled, "shut down"), 1);
  EXPECT_EQ(left.code, Code::peer_left);
  EXPECT_EQ(left.rank, 1);
  EXPECT_FALSE(left.by_sender);
  EXPECT_EQ(refusal(5, Status::error(Code::peer_left, "rank 3 has left").with_rank(3), 1).rank, 3);
}

TEST(PairErrors, WhatDoesNotFitIsSaidWithBothSides) {
  const control::OfferMessage offer{1, 0, 7, DType::float64, {4}, "y", {}};
  EXPECT_THAT(pair_does_not_fit(offer, 2, pair_request(OpKind::recv, 2), 1),
              HasSubstr("send 'y' of float64 [4] from rank 2 does not fit recv 'x' of float32 [3] on rank 1 (tag 7)"));
}

}  // namespace
}  // namespace ronde::engine
