#include "agreement/call_queues.h"

#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

Call numbered(std::uint64_t order, Nanoseconds deadline = kNever) {
  return {.name = "call " + std::to_string(order), .descriptor = {}, .deadline = deadline, .order = order};
}

TEST(CallQueues, WhoeverWaitsForAPlaceComesInTheOrderOfTheCalls) {
  CallQueues queues;
  queues.push(10, numbered(3, 300));
  queues.push(10, numbered(4, 100));
  queues.push(11, numbered(5, 400));
  EXPECT_EQ(queues.size(), 3u);
  EXPECT_EQ(queues.next_deadline(), 300) << "of those that are first";
  EXPECT_EQ(queues.pop(10)->order, 3u);
  EXPECT_EQ(queues.next_deadline(), 100);
  EXPECT_EQ(queues.pop(10)->order, 4u);
  EXPECT_FALSE(queues.has_any(10));
  EXPECT_FALSE(queues.pop(10));
  EXPECT_EQ(queues.size(), 1u);
}

TEST(CallQueues, AllThatWaitAreTakenAtOnce) {
  CallQueues queues;
  queues.push(10, numbered(1));
  queues.push(10, numbered(2));
  const std::vector<std::pair<std::uint32_t, Call>> calls = queues.take_all();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].first, 10u);
  EXPECT_EQ(calls[0].second.order, 1u);
  EXPECT_EQ(calls[1].second.order, 2u);
  EXPECT_EQ(queues.size(), 0u);
  EXPECT_EQ(queues.next_deadline(), kNever);
}

}  // namespace
}  // namespace ronde::agreement
