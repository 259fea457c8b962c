#include "engine/requests/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <vector>

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ResultsTest : public testing::Test {
 protected:
  /// Of one tensor, of float32.
  static Request request_of(OpKind kind, Shape shape) {
    Request request;
    request.kind = kind;
    request.name = "x";
    RequestTensor pair;
    pair.input.shape = std::move(shape);
    request.tensors.push_back(pair);
    return request;
  }
  /// The output has this shape, in the request too, which points at its memory.
  void expect_output(const Request& request, std::size_t index, const Shape& shape) {
    ASSERT_LT(index, results_.owned_outputs().size());
    const OwnedOutput& output = results_.owned_outputs()[index];
    EXPECT_EQ(output.shape, shape);
    EXPECT_EQ(request.tensors[index].output.shape, shape);
    EXPECT_EQ(request.tensors[index].output.data, output.data.get());
    EXPECT_EQ(request.tensors[index].output.dtype, request.tensors[index].input.dtype);
  }

  Results results_;
};

TEST_F(ResultsTest, ARequestWithoutTensorsHasNoOutputs) {
  Request request;
  request.kind = OpKind::allgather;
  EXPECT_TRUE(results_.make_outputs(request, {}, 0, 1));
  EXPECT_THAT(results_.owned_outputs(), IsEmpty());
  EXPECT_THAT(results_.received_splits(), IsEmpty());
  EXPECT_EQ(results_.source(), -1);
}

TEST_F(ResultsTest, OfAllRowsTheOutputIsTheSum) {
  for (const auto& [rows, sum] :
       std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>>{{{0}, 0}, {{1}, 1}, {{2, 0, 5}, 7}}) {
    Request request = request_of(OpKind::allgather, {rows.front(), 3});
    ASSERT_TRUE(results_.make_outputs(request, {rows}, 0, rows.size()));
    expect_output(request, 0, {sum, 3});
    EXPECT_EQ(request.tensors[0].input.shape, (Shape{rows.front(), 3})) << "the input is as it was";
  }
}

TEST_F(ResultsTest, EachTensorHasItsOwnRows) {
  Request request = request_of(OpKind::allgather, {1});
  request.tensors.push_back(request.tensors.front());
  request.tensors.back().input.dtype = DType::float64;
  ASSERT_TRUE(results_.make_outputs(request, {{1, 2}, {1, 4}}, 0, 2));
  expect_output(request, 0, {3});
  expect_output(request, 1, {5});
}

TEST_F(ResultsTest, OfAPartTheOutputIsThisRanks) {
  Request request = request_of(OpKind::reducescatter, {5, 2});
  ASSERT_TRUE(results_.make_outputs(request, {{3, 2}}, 1, 2));
  expect_output(request, 0, {2, 2});
  EXPECT_THAT(results_.received_splits(), IsEmpty());
}

TEST_F(ResultsTest, OfPairsTheOutputIsWhatAllHaveForThisRank) {
  Request request = request_of(OpKind::alltoall, {6});
  const std::vector<std::vector<std::int64_t>> rows = {{1, 2, 3, 4, 0, 5, 6, 7, 8}};  // from each: to each
  ASSERT_TRUE(results_.make_outputs(request, rows, 1, 3));
  expect_output(request, 0, {9});
  EXPECT_THAT(results_.received_splits(), ElementsAre(2, 0, 7));
}

TEST_F(ResultsTest, ARankAloneReceivesWhatItSends) {
  Request request = request_of(OpKind::alltoall, {4});
  ASSERT_TRUE(results_.make_outputs(request, {{4}}, 0, 1));
  expect_output(request, 0, {4});
  EXPECT_THAT(results_.received_splits(), ElementsAre(4));
}

TEST_F(ResultsTest, WhatIsMadeAgainTakesThePlaceOfWhatWas) {
  Request request = request_of(OpKind::allgather, {1});
  ASSERT_TRUE(results_.make_outputs(request, {{1, 1}}, 0, 2));
  ASSERT_TRUE(results_.make_outputs(request, {{1, 6}}, 0, 2));
  EXPECT_EQ(results_.owned_outputs().size(), 1u);
  expect_output(request, 0, {7});
}

TEST_F(ResultsTest, ANumberIsTheOneOutput) {
  Request request;
  request.kind = OpKind::join;
  results_.give(request, 4);
  results_.give(request, 3);
  ASSERT_EQ(results_.owned_outputs().size(), 1u);
  EXPECT_EQ(results_.owned_outputs()[0].shape, Shape{1});
  std::int32_t number = 0;
  std::memcpy(&number, results_.owned_outputs()[0].data.get(), sizeof number);
  EXPECT_EQ(number, 3);
  ASSERT_EQ(request.tensors.size(), 1u);
  EXPECT_EQ(request.tensors[0].output.data, results_.owned_outputs()[0].data.get());
  EXPECT_EQ(request.tensors[0].output.dtype, DType::int32);
}

TEST_F(ResultsTest, ClearedThereAreNone) {
  Request request = request_of(OpKind::alltoall, {4});
  ASSERT_TRUE(results_.make_outputs(request, {{4}}, 0, 1));
  results_.clear();
  EXPECT_THAT(results_.owned_outputs(), IsEmpty());
  EXPECT_THAT(results_.received_splits(), IsEmpty());
}

TEST_F(ResultsTest, ARecvHasASource) {
  results_.set_source(0);
  EXPECT_EQ(results_.source(), 0);
}

TEST(ResultMemory, BeginsWithALineOfTheCache) {
  for (const std::size_t bytes : {0, 1, 4000, 600000}) {
    const ResultMemory memory = make_result_memory(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0u);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // theirs keep freed memory apart on purpose
TEST(ResultMemory, IsUsedAgainForResultsOfOneSize) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  std::set<const std::byte*> places;
  std::vector<std::unique_ptr<int>> others;
  for (int round = 0; round < 50; ++round) {
    const ResultMemory memory = make_result_memory(kBytes);
    others.push_back(std::make_unique<int>(round));  // what a program allocates meanwhile
    places.insert(memory.get());
  }
  EXPECT_LE(places.size(), 3u) << "else each comes with memory that is in no cache";
}
#endif

}  // namespace
}  // namespace ronde::engine
