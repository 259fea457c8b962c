#include "agreement/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Group kPair{0, {10, 11}};

Descriptor asks(OpKind kind, Shape shape) {
  Descriptor descriptor;
  descriptor.kind = kind;
  descriptor.tensors = {{DType::float32, std::move(shape)}};
  return descriptor;
}

/// Held from the members in order; of the others, which have joined, none.
HeldRequest held_of(std::vector<Descriptor> descriptors) {
  HeldRequest held;
  held.count = static_cast<int>(descriptors.size());
  held.has.assign(descriptors.size(), true);
  held.has.resize(2);
  held.descriptors = std::move(descriptors);
  held.descriptors.resize(2);
  held.call_sites.resize(2);
  return held;
}

TEST(Answer, OfEqualRequestsIsToDoIt) {
  const Descriptor sum = asks(OpKind::allreduce, {2});
  const Answer answer = answer_to(kPair, "x", held_of({sum, sum}));
  ASSERT_TRUE(answer.item);
  EXPECT_EQ(answer.item->name, "x");
  EXPECT_THAT(answer.item->rows, IsEmpty());
  EXPECT_THAT(answer.item->places, IsEmpty()) << "in private memory";
  EXPECT_FALSE(answer.item->descriptor) << "every member knows it";
}

TEST(Answer, OfAnAllgatherSaysTheRowsOfEachMember) {
  const Answer answer =
      answer_to(kPair, "x", held_of({asks(OpKind::allgather, {3, 4}), asks(OpKind::allgather, {5, 4})}));
  ASSERT_TRUE(answer.item);
  EXPECT_THAT(answer.item->rows, ElementsAre(ElementsAre(3, 5)));
}

TEST(Answer, OfDifferentRequestsSaysWhoAskedForWhat) {
  HeldRequest held = held_of({asks(OpKind::allreduce, {2}), asks(OpKind::allreduce, {3})});
  const Answer answer = answer_to(kPair, "x", held);
  EXPECT_FALSE(answer.item);
  EXPECT_THAT(answer.mismatch, HasSubstr("the ranks disagree about the shape of 'x'"));
  EXPECT_THAT(answer.mismatch, HasSubstr("rank 10 asked for allreduce (sum) of float32 [2]; rank 11 asked for"));
  EXPECT_THAT(answer.mismatch, HasSubstr("under one name"));
  held.call_number = 4;
  EXPECT_THAT(answer_to(kPair, "x", held).mismatch, HasSubstr("the same unnamed calls in the same order"));
}

TEST(Answer, OfCallsThatCameAboutInDifferentWaysIsAnError) {
  const Group three{0, {10, 11, 12}};
  const auto answer = [&](std::int32_t a, std::int32_t b, std::int32_t c, bool has_lost_order = false) {
    HeldRequest held;
    held.count = 3;
    held.call_number = 7;
    held.has.assign(3, true);
    held.call_sites.resize(3);
    held.descriptors.assign(3, asks(OpKind::allreduce, {2}));
    held.descriptors[0].tag = a;
    held.descriptors[1].tag = b;
    held.descriptors[2].tag = c;
    return answer_to(three, "noname.0.7", held, {}, has_lost_order);
  };
  EXPECT_TRUE(answer(0, 0, 0).item);
  EXPECT_TRUE(answer(kOwnOrder, kOwnOrder, kOwnOrder).item);
  EXPECT_TRUE(answer(0, kOwnOrder, 0).item) << "who does not know agrees";
  EXPECT_TRUE(answer(0, 3, 3).item);
  EXPECT_THAT(answer(0, kOwnOrder, 3).mismatch,
              HasSubstr("the ranks disagree about the order of 'noname.0.7': rank 10 asked for allreduce (sum) of "
                        "float32 [2]; rank 11 asked for allreduce (sum) of float32 [2], by the program itself; rank "
                        "12 asked for allreduce (sum) of float32 [2], behind the end of the call 2 before it. "));
  EXPECT_THAT(answer(kBehindOther + 5, 3, 3).mismatch,
              HasSubstr("behind the end of a send or recv, or of a call of another group or before a barrier; ranks "
                        "11, 12 asked"));
  EXPECT_THAT(answer(kBehindChain + 1, 2, kBehindChain + 2).mismatch,
              HasSubstr("behind what was put behind the end of a call before it; rank 11 asked"));
  EXPECT_THAT(answer(3, 0, 4).mismatch, HasSubstr("the call 3 before it"));
  EXPECT_TRUE(answer(3, 0, 4).loses_order);
  EXPECT_TRUE(answer(0, kOwnOrder, 0, true).item);
  EXPECT_TRUE(answer(0, 3, 3, true).loses_order) << "nobody knows any more which call that is";
}

TEST(Answer, WithoutAMemberThatHasJoinedSumsGoOnAndGathersDoNot) {
  const Answer sum = answer_to(kPair, "x", held_of({asks(OpKind::allreduce, {2})}));
  ASSERT_TRUE(sum.item);
  EXPECT_TRUE(sum.item->descriptor) << "the member that has joined does not know it";
  const Answer gather = answer_to(kPair, "x", held_of({asks(OpKind::allgather, {2})}));
  EXPECT_FALSE(gather.item);
  EXPECT_THAT(gather.mismatch, HasSubstr("cannot be done while rank 11 has joined: only allreduce and barrier"));
}

TEST(Answer, SaysWhereTensorsLieIfTheyAreReducedThere) {
  Descriptor first = asks(OpKind::allreduce, {2});
  Descriptor second = first;
  MemoryPlaces asked;
  const auto places = [&](bool may) {
    asked.clear();
    const MayReduceAt may_reduce_at = [&](const MemoryPlaces& all) {
      asked = all;
      return may;
    };
    return answer_to(kPair, "x", held_of({first, second}), may_reduce_at).item->places;
  };
  EXPECT_THAT(places(true), IsEmpty());
  first.memory_place = 8;
  EXPECT_THAT(places(true), IsEmpty()) << "private on one rank";
  EXPECT_THAT(asked, IsEmpty()) << "where there is nothing to ask";
  second.memory_place = {24, 40};
  EXPECT_EQ(places(true), (MemoryPlaces{8, {24, 40}}));
  EXPECT_THAT(places(false), IsEmpty());
  EXPECT_EQ(asked, (MemoryPlaces{8, {24, 40}}));
}

}  // namespace
}  // namespace ronde::agreement
