#include "agreement/request_errors.h"

#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

const Group kThree{0, {10, 11, 12}};

Descriptor sum_of(std::int64_t elements) {
  Descriptor descriptor;
  descriptor.tensors = {{DType::float32, {elements}}};
  return descriptor;
}

/// Members 0 and 2 ask for two elements, member 1 has not come.
HeldRequest held_without_the_second() {
  HeldRequest held;
  held.count = 2;
  held.has = {true, false, true};
  held.descriptors = {sum_of(2), {}, sum_of(2)};
  held.call_sites = {"train.py:4", "", "train.py:4"};
  return held;
}

TEST(RequestErrors, RanksAreListed) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({3, 1}), "ranks 3, 1");
}

TEST(RequestErrors, OfDisagreementGatherThoseWithOneView) {
  HeldRequest held = held_without_the_second();
  held.has[1] = true;
  held.descriptors[1] = sum_of(3);
  EXPECT_EQ(disagreement_text(kThree, "x", held, "shape"),
            "the ranks disagree about the shape of 'x': ranks 10, 12 asked for allreduce (sum) of float32 [2] at "
            "train.py:4; rank 11 asked for allreduce (sum) of float32 [3]. Submit the same under one name on every "
            "rank");
  held.call_sites[2] = "train.py:9";
  held.call_number = 1;
  EXPECT_EQ(disagreement_text(kThree, "x", held, "shape"),
            "the ranks disagree about the shape of 'x': rank 10 asked for allreduce (sum) of float32 [2] at "
            "train.py:4; rank 11 asked for allreduce (sum) of float32 [3]; rank 12 asked for allreduce (sum) of "
            "float32 [2] at train.py:9. Make the same unnamed calls in the same order on every rank");
}

TEST(RequestErrors, OfJoinedRanksSayTheObstacle) {
  EXPECT_EQ(joined_text("x", sum_of(2), {11}, "no reason"),
            "allreduce (sum) of float32 [2] named 'x' cannot be done while rank 11 has joined: no reason");
  EXPECT_EQ(joined_text("x", sum_of(2), {11, 12}, "no reason"),
            "allreduce (sum) of float32 [2] named 'x' cannot be done while ranks 11, 12 have joined: no reason");
}

TEST(RequestErrors, OfACancelledRequestNameWhomItWaitedFor) {
  EXPECT_EQ(cancelled_text(kThree, "x", held_without_the_second(), 2, {11}),
            "rank 12 has cancelled allreduce (sum) of float32 [2] named 'x' while it waited for rank 11: its program "
            "was interrupted there, or called ronde_cancel");
}

TEST(RequestErrors, OfTimeSayHowLongTheFirstHasWaited) {
  HeldRequest held = held_without_the_second();
  held.since = 2 * kSecond;
  held.deadline = 3 * kSecond + kSecond / 2;
  EXPECT_EQ(late_text("x", held, {11}),
            "Timed out after 1.5 s in allreduce (sum) of float32 [2] named 'x': rank 11 did not submit it. Look at "
            "what rank 11 was doing, or raise the timeout (RONDE_TIMEOUT_S) if it may take longer");
  EXPECT_NE(late_text("x", held, {10, 11}).find("Look at what ranks 10, 11 were doing"), std::string::npos);
}

TEST(RequestErrors, OfACallBeyondABarrierSayWhoMadeIt) {
  EXPECT_EQ(beyond_barrier_text(kThree, "call 3", held_without_the_second(), 11, 2),
            "ranks 10, 12 have made more calls without a name than rank 11, which called a barrier after 2: 'call 3' "
            "has no counterpart there (ranks 10, 12 asked for allreduce (sum) of float32 [2] at train.py:4). Make the "
            "same unnamed calls on every rank before a barrier");
}

}  // namespace
}  // namespace ronde::agreement
