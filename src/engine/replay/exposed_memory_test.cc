// What the pages are replaced by only a process per rank can show: tests/ranks. Here is what is decided about them.
#include "engine/replay/exposed_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "transport/loopback/testing/host.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TicketPtr reduction(std::byte* input, std::byte* output, std::size_t bytes, OpKind kind = OpKind::allreduce) {
  Request request;
  request.name = "x";
  request.kind = kind;
  Tensor tensor;
  tensor.dtype = DType::int8;
  tensor.shape = {static_cast<std::int64_t>(bytes)};
  RequestTensor pair{tensor, tensor};
  pair.input.data = input;
  pair.output.data = output;
  request.tensors.push_back(pair);
  return std::make_shared<Ticket>(std::move(request));
}

class ExposedMemoryTest : public testing::Test {
 protected:
  std::byte* at(std::size_t offset) { return static_cast<std::byte*>(held_.get()) + offset; }
  MemorySpan span_at(std::size_t offset) {
    return {static_cast<std::size_t>(memory_.place_of(held_.get(), 1)) + offset, 64};
  }
  bool is_withdrawn(std::size_t offset) { return memory_.place_of(at(offset), 64) == kNoOffset; }

  const std::vector<transport::LoopbackRank> ranks_ = transport::loopback_host(2);
  transport::ReachableMemory& memory_ = *ranks_[0].memory;
  const std::shared_ptr<void> held_ = memory_.allocate(1 << 17).value();
  ExposedMemory exposed_{memory_};
};

TEST_F(ExposedMemoryTest, IsWithdrawnAsAWholeBeforeAnyOfItIsReplaced) {
  exposed_.add(span_at(0));
  exposed_.add(span_at(1 << 16));
  std::vector<bool> second_is_withdrawn;
  exposed_.take_back([&](const std::byte*, std::size_t) {
    second_is_withdrawn.push_back(is_withdrawn(1 << 16));
    return false;
  });
  EXPECT_THAT(second_is_withdrawn, ElementsAre(true, true));
  EXPECT_TRUE(exposed_.is_empty());
}

TEST_F(ExposedMemoryTest, WhatIsInUseElsewhereIsLostAndItsCallerHearsSo) {
  exposed_.add(span_at(0));
  exposed_.add(span_at(1 << 16));
  exposed_.take_back([&](const std::byte* begin, std::size_t) { return begin == at(0); });
  const Status status = Status::error(Code::peer_lost, "rank 1 died").with_rank(1);
  const Status lost = exposed_.with_memory_lost(status, *reduction(at(0), at(0), 64));
  EXPECT_EQ(lost.code(), Code::peer_lost);
  EXPECT_EQ(lost.failed_rank(), 1);
  EXPECT_THAT(lost.message(), HasSubstr("rank 1 died; the memory of 'x' must not be used any more"));
  EXPECT_THAT(lost.message(), HasSubstr("another group of this process is at work in the same page"));
  EXPECT_EQ(exposed_.with_memory_lost(status, *reduction(at(1 << 16), at(1 << 16), 64)).message(), "rank 1 died");
}

TEST_F(ExposedMemoryTest, WhereNoPeerIsAtWorkNothingHappens) {
  exposed_.add(span_at(0));
  exposed_.forget();
  EXPECT_TRUE(exposed_.is_empty());
  EXPECT_FALSE(is_withdrawn(0));
}

TEST_F(ExposedMemoryTest, AReductionUnderWayInOneOfThePagesIsSeen) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto is_seen = [&](std::byte* input, std::byte* output, OpKind kind = OpKind::allreduce) {
    PendingTable pending;
    const TicketPtr ticket = reduction(input, output, 64, kind);
    EXPECT_TRUE(pending.insert(ticket));
    return any_in_pages_of(pending, at(page + 8), 16);
  };
  EXPECT_TRUE(is_seen(at(2 * page - 64), at(4 * page)));
  EXPECT_TRUE(is_seen(at(4 * page), at(page - 32))) << "its end lies there";
  EXPECT_FALSE(is_seen(at(0), at(2 * page)));
  EXPECT_FALSE(is_seen(at(page), at(page), OpKind::broadcast)) << "not done in shared memory";
}

TEST_F(ExposedMemoryTest, OneThatIsDoneIsNot) {
  PendingTable pending;
  const TicketPtr ticket = reduction(at(0), at(0), 64);
  ASSERT_TRUE(pending.insert(ticket));
  ticket->finish({});
  EXPECT_FALSE(any_in_pages_of(pending, at(0), 64));
}

}  // namespace
}  // namespace ronde::engine
