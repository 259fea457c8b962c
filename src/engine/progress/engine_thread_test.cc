#include "engine/progress/engine_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "engine/testing/engine.h"

namespace ronde::engine {
namespace {

class EngineThreadTest : public testing::Test {
 protected:
  explicit EngineThreadTest(int ranks = 1) : engines_(engine_of_first_rank(clock_, ranks)) {
    const Status opened = alarm_.open();
    EXPECT_TRUE(opened) << opened.message();
    role_ = std::make_unique<DriverRole>(engines_, clock_, Pacing(), alarm_);
    engines_.job().set_hooks([this] { role_->on_finished(); },
                             [this](const TicketPtr& ticket, Status status, std::shared_ptr<void> owner) {
                               callbacks_.push(ticket, std::move(status), std::move(owner));
                             });
  }
  /// `descriptors`: of the processes that are watched.
  void start(std::vector<int> descriptors = {}) {
    Result<PeerProcesses> peers = PeerProcesses::watch(std::move(descriptors));
    ASSERT_TRUE(peers);
    auto started = EngineThread::start(engines_, *role_, callbacks_, alarm_, std::move(*peers), clock_);
    ASSERT_TRUE(started) << started.status().message();
    thread_ = std::move(*started);
  }
  void submit(DoneCallback on_done) { EXPECT_TRUE(engines_.job().submit(sum("x", values_, std::move(on_done)))); }

  RealClock clock_;
  EngineSet engines_;
  ThreadAlarm alarm_;
  CallbackQueue callbacks_{0};
  std::unique_ptr<DriverRole> role_;
  std::vector<float> values_ = {1, 2};
  std::unique_ptr<EngineThread> thread_;
};

TEST_F(EngineThreadTest, DrivesWhileNobodyWaitsAndRunsCallbacks) {
  std::promise<Status> told;
  start();
  submit([&](const TicketPtr&, const Status& status) { told.set_value(status); });
  role_->wake_driver();
  std::future<Status> end = told.get_future();
  ASSERT_EQ(end.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_TRUE(end.get());
}

TEST_F(EngineThreadTest, RunsWhatIsDueBeforeItEnds) {
  bool was_told = false;
  submit([&](const TicketPtr&, const Status&) { was_told = true; });
  while (engines_.step()) {
  }
  EXPECT_FALSE(was_told);
  start();
  thread_->stop();
  EXPECT_TRUE(was_told);
}

class EngineThreadOfTwo : public EngineThreadTest {
 protected:
  EngineThreadOfTwo() : EngineThreadTest(2) {}
};

TEST_F(EngineThreadOfTwo, SeesTheEndOfAProcess) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  start({-1, ends[0]});
  EXPECT_FALSE(engines_.job().has_ended(1));
  ::close(ends[1]);
  const Nanoseconds limit = clock_.now() + 20 * kSecond;
  while (!engines_.job().has_ended(1) && clock_.now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(engines_.job().has_ended(1));
  thread_->stop();
  ::close(ends[0]);
}

}  // namespace
}  // namespace ronde::engine
