#include "backend/oneccl/calls_in_turn.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <vector>

namespace ronde::backend::oneccl {
namespace {

using State = CallsInTurn::State;
constexpr Nanoseconds kPlenty = 20 * kSecond;

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

TEST(CallsInTurn, AreMadeInTheirOrderByAnotherThread) {
  const std::shared_ptr<CallsInTurn> calls = CallsInTurn::start().value();
  std::vector<int> order;
  std::shared_ptr<CallsInTurn::Call> last;
  for (int i = 0; i < 100; ++i) {
    last = calls->add([&order, i] {
      order.push_back(i);
      return i % 2 == 0;
    });
  }
  EXPECT_EQ(calls->wait_for(*last, kPlenty), State::failed);
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  EXPECT_TRUE(calls->finish(kPlenty));
}

TEST(CallsInTurn, TheDescriptorTellsOfEachThatHasEnded) {
  const std::shared_ptr<CallsInTurn> calls = CallsInTurn::start().value();
  std::promise<void> go;
  const auto first = calls->add([&] {
    go.get_future().wait();
    return true;
  });
  const auto second = calls->add([] { return true; });
  EXPECT_EQ(calls->state_of(*first), State::waiting);
  EXPECT_FALSE(is_readable(calls->fd()));
  go.set_value();
  EXPECT_EQ(calls->wait_for(*second, kNever), State::succeeded);
  EXPECT_TRUE(calls->finish(kPlenty));
  for (int left = 2; left > 0; --left) {
    EXPECT_TRUE(is_readable(calls->fd()));
    calls->take_note();
  }
  EXPECT_FALSE(is_readable(calls->fd()));
}

TEST(CallsInTurn, OneThatNeverEndsHoldsUpNobody) {
  std::promise<void> begun, go, gone;
  {
    const std::shared_ptr<CallsInTurn> calls = CallsInTurn::start().value();
    const auto stuck = calls->add([&, kept = std::shared_ptr<void>(nullptr, [&](void*) { gone.set_value(); })] {
      begun.set_value();
      go.get_future().wait();
      return true;
    });
    begun.get_future().wait();
    const auto behind = calls->add([] { return true; });
    EXPECT_EQ(calls->wait_for(*stuck, kMillisecond), State::waiting);
    calls->drop_waiting();
    EXPECT_FALSE(calls->finish(kMillisecond));
    EXPECT_EQ(calls->state_of(*behind), State::waiting);
  }
  go.set_value();
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready) << "the thread has let go";
}

}  // namespace
}  // namespace ronde::backend::oneccl
