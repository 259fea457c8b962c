#include "backend/staged/staged_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "backend/staged/testing/stub_library.h"

namespace ronde::backend {
namespace {

/// Of one tensor of bytes, whose rows are as `rows` says.
Plan plan_of(OpKind kind, std::int64_t extent, std::vector<std::int64_t> rows = {}) {
  Plan plan;
  plan.kind = kind;
  plan.dtype = DType::uint8;
  PlanMember member;
  member.input.dtype = member.output.dtype = DType::uint8;
  member.input.shape = {extent};
  plan.members.push_back(member);
  if (!rows.empty()) {
    plan.rows.push_back(std::move(rows));
  }
  return plan;
}

TEST(StagedPlan, ALibraryDoesWhatItCanCount) {
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  EXPECT_TRUE(takes(plan_of(OpKind::barrier, 0), std::nullopt, StubLibrary(2)));
  EXPECT_TRUE(takes(plan_of(OpKind::broadcast, 8 * kGib), std::nullopt, StubLibrary(2))) << "in pieces";
  EXPECT_TRUE(takes(plan_of(OpKind::allgather, kGib / 2, {kGib / 2, kGib / 2}), std::nullopt, StubLibrary(2)));
  EXPECT_FALSE(takes(plan_of(OpKind::allgather, kGib, {kGib, kGib}), std::nullopt, StubLibrary(2)))
      << "2 GiB are received";
  EXPECT_TRUE(takes(plan_of(OpKind::alltoall, 6, {1, 2, 3, 4}), std::nullopt, StubLibrary(2)));
  EXPECT_FALSE(takes(plan_of(OpKind::alltoall, kGib, {kGib, kGib, 0, 0}), std::nullopt, StubLibrary(2)))
      << "rank 0 sends them";
}

TEST(StagedPlan, WhatALibraryDoesNotReduceIsLeft) {
  for (const OpKind kind : {OpKind::allreduce, OpKind::reduce, OpKind::scan, OpKind::exscan}) {
    EXPECT_FALSE(takes(plan_of(kind, 4), std::nullopt, StubLibrary(2)));
  }
}

TEST(StagedPlan, PiecesAreWholeElementsThatAnIntCanCount) {
  EXPECT_EQ(bytes_of_piece(nullptr, 1), std::size_t{1} << 20);
  EXPECT_EQ(bytes_of_piece(nullptr, 2), std::size_t{1} << 20);
  EXPECT_EQ(bytes_of_piece(nullptr, 8), std::size_t{4} << 20);
  EXPECT_LE(bytes_of_piece(nullptr, 1'000'000), std::size_t{std::numeric_limits<int>::max()});
  const StagedReduction halves = *StagedReduction::of({DType::float16, ReduceOp::sum}, StubLibrary(4), OpKind::reduce);
  EXPECT_EQ(bytes_of_piece(&halves, 4), std::size_t{1} << 20) << "2 MiB in front of the library";
}

TEST(StagedPlan, PartsOfDifferentSizesAreLeftIfTheLibraryHasNone) {
  const StubLibrary equal_only(2, true);
  EXPECT_TRUE(takes(plan_of(OpKind::allgather, 4, {4, 4}), std::nullopt, equal_only));
  EXPECT_FALSE(takes(plan_of(OpKind::allgather, 4, {4, 5}), std::nullopt, equal_only));
  EXPECT_TRUE(takes(plan_of(OpKind::alltoall, 6, {3, 3, 3, 3}), std::nullopt, equal_only));
  EXPECT_FALSE(takes(plan_of(OpKind::alltoall, 6, {1, 2, 3, 4}), std::nullopt, equal_only));
  EXPECT_TRUE(takes(plan_of(OpKind::broadcast, 5), std::nullopt, equal_only));
  EXPECT_FALSE(takes(plan_of(OpKind::barrier, 0), std::nullopt, equal_only));
}

TEST(Staging, IsUsedAgainAndGrows) {
  Staging staging;
  std::byte* const first = staging.take(100);
  EXPECT_EQ(staging.take(50), first);
  EXPECT_EQ(staging.take(100), first);
  EXPECT_NE(staging.take(100000), nullptr);
}

}  // namespace
}  // namespace ronde::backend
