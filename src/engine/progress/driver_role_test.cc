// Who steps and who waits, with the engine of a rank that is alone: whoever drives ends its requests at once. Ranks and
// the engine thread together: runner_test.cc.
#include "engine/progress/driver_role.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/poll_for.h"
#include "engine/requests/callback_queue.h"
#include "engine/testing/engine.h"

namespace ronde::engine {
namespace {

bool has_rung(int descriptor) {
  pollfd fds[] = {{descriptor, POLLIN, 0}};
  return poll_for(fds, 0) == 1;
}

class DriverRoleTest : public testing::Test {
 protected:
  DriverRoleTest() : engines_(engine_of_first_rank(clock_)) {
    const Status opened = alarm_.open();
    EXPECT_TRUE(opened) << opened.message();
    role_ = std::make_unique<DriverRole>(engines_, clock_, Pacing(), alarm_);
    engines_.job().set_hooks([this] { role_->on_finished(); }, {});
  }
  TicketPtr submit() {
    const TicketPtr ticket = sum("x", values_);
    EXPECT_TRUE(engines_.job().submit(ticket));
    return ticket;
  }

  RealClock clock_;
  EngineSet engines_;
  ThreadAlarm alarm_;
  std::unique_ptr<DriverRole> role_;
  std::vector<float> values_ = {1, 2};
};

TEST_F(DriverRoleTest, WhoWaitsDrives) {
  const TicketPtr ticket = submit();
  EXPECT_FALSE(ticket->is_done());
  EXPECT_TRUE(role_->wait_until([&] { return ticket->is_done(); }, 20 * kSecond));
}

TEST_F(DriverRoleTest, AWaitWithoutTimeDoesWhatCanBeDoneNow) {
  const TicketPtr ticket = submit();
  EXPECT_TRUE(role_->wait_until([&] { return ticket->is_done(); }, 0));
  EXPECT_EQ(role_->wait_until([] { return false; }, 0).code(), Code::timed_out);
}

TEST_F(DriverRoleTest, AWaitForWhatMovesEndsWhenNothingDoes) {
  const TicketPtr ticket = submit();
  EXPECT_TRUE(role_->wait_until([&] { return ticket->is_done(); }, {60 * kSecond, kSecond}));
  const Nanoseconds began = clock_.now();
  EXPECT_EQ(role_->wait_until([] { return false; }, {60 * kSecond, kMillisecond}).code(), Code::timed_out);
  EXPECT_EQ(role_->wait_until([] { return false; }, {kMillisecond, 60 * kSecond}).code(), Code::timed_out);
  EXPECT_LT(clock_.now() - began, 30 * kSecond);
}

TEST_F(DriverRoleTest, AWaitInACallbackWouldNeverEnd) {
  CallbackQueue callbacks(0);
  Status waited;
  Request request;
  request.name = "x";
  callbacks.push(std::make_shared<Ticket>(std::move(request),
                                          [&](const TicketPtr&, const Status&) {
                                            waited = role_->wait_until([] { return false; }, kNever);
                                          }),
                 {}, nullptr);
  callbacks.run_all();
  EXPECT_EQ(waited.code(), Code::would_deadlock);
}

TEST_F(DriverRoleTest, WhileOneDrivesOthersAreTold) {
  std::atomic<bool> first_is_over{false};
  std::atomic<bool> second_is_over{false};
  std::atomic<int> looks{0};
  std::thread first([&] {
    EXPECT_TRUE(role_->wait_until(
        [&] {
          ++looks;
          return first_is_over.load();
        },
        60 * kSecond));
  });
  while (looks < 2) {  // it has asked once before it took the role
    std::this_thread::yield();
  }
  std::thread second([&] { EXPECT_TRUE(role_->wait_until([&] { return second_is_over.load(); }, 60 * kSecond)); });
  second_is_over = true;
  {
    const auto lock = role_->lock();
    role_->on_finished();
  }
  second.join();
  first_is_over = true;
  {
    const auto lock = role_->lock();
    role_->on_finished();
  }
  first.join();
}

TEST_F(DriverRoleTest, WithoutADriverTheEngineThreadIsWoken) {
  EXPECT_FALSE(has_rung(alarm_.bell()));
  role_->wake_driver_if_any_input();
  EXPECT_FALSE(has_rung(alarm_.bell())) << "there is nothing to look at";
  submit();
  role_->wake_driver_if_any_input();
  EXPECT_TRUE(has_rung(alarm_.bell()));
}

TEST_F(DriverRoleTest, TheEngineThreadDrivesUntilNothingMovesAndMindsTheBell) {
  const TicketPtr ticket = submit();
  DriverRole::Rest rest = role_->drive_until_rest([] { return false; });
  EXPECT_TRUE(ticket->is_done());
  for (int i = 0; i < 1000 && !rest.minds_bell; ++i) {
    rest = role_->drive_until_rest([] { return false; });
  }
  EXPECT_TRUE(rest.minds_bell);
}

TEST_F(DriverRoleTest, AfterADriverTheBellIsLeftAloneForAMoment) {
  EXPECT_EQ(role_->wait_until([] { return false; }, 0).code(), Code::timed_out);
  EXPECT_FALSE(role_->drive_until_rest([] { return false; }).minds_bell);
  pollfd fds[] = {{alarm_.timer(), POLLIN, 0}};
  EXPECT_EQ(poll_for(fds, 20 * kSecond), 1) << "the timer ends that";
}

TEST_F(DriverRoleTest, TheEngineThreadStopsForWhatIsWantedElsewhere) {
  submit();
  EXPECT_EQ(role_->drive_until_rest([] { return true; }).until, 0);
}

}  // namespace
}  // namespace ronde::engine
