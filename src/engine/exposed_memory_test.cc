// What the pages are replaced by only a process per rank can show: tests/ranks. Here is what is decided about them.
#include "engine/exposed_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "transport/loopback/loopback.h"

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
  ExposedMemoryTest()
      : arenas_(transport::make_loopback_world(2, transport::RegionLayout::for_size(2))), exposed_(*arenas_[0]) {}
  std::byte* at(std::size_t offset) { return arenas_[0]->heap(0) + offset; }

  std::vector<std::unique_ptr<transport::HostArena>> arenas_;
  ExposedMemory exposed_;
};

TEST_F(ExposedMemoryTest, IsWithdrawnAsAWholeBeforeAnyOfItIsReplaced) {
  exposed_.add({0, 64});
  exposed_.add({1 << 16, 64});
  std::vector<bool> second_is_withdrawn;
  exposed_.take_back([&](const std::byte*, std::size_t) {
    second_is_withdrawn.push_back(arenas_[0]->is_withdrawn(1 << 16, 64));
    return false;
  });
  EXPECT_THAT(second_is_withdrawn, ElementsAre(true, true));
  EXPECT_TRUE(exposed_.is_empty());
}

TEST_F(ExposedMemoryTest, WhatIsInUseElsewhereIsLostAndItsCallerHearsSo) {
  exposed_.add({0, 64});
  exposed_.add({1 << 16, 64});
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
  exposed_.add({0, 64});
  exposed_.forget();
  EXPECT_TRUE(exposed_.is_empty());
  EXPECT_FALSE(arenas_[0]->is_withdrawn(0, 64));
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
