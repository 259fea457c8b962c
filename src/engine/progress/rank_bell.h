// RankBell: how the threads of a rank sleep until its peers have something for it. Between ranks that goes by the
// rank's bell (transport/bell.h). Where links have news that ring no bell, who sleeps polls for these too.
//
// One driver and the engine thread may sleep by it at a time. Where all news ring the bell, the driver sleeps on the
// bell's word, which is the fastest to wake, and has the bell for itself. Where links have news of their own, both
// sleep in poll() on the bell's eventfd and on the descriptor of the news.
#pragma once

#include "base/clock.h"
#include "transport/bell.h"

namespace ronde::engine {

class RankBell {
 public:
  /// `news_fd`: readable when links have news of which the bell tells nobody (Connections::news_fd()); -1: none.
  RankBell(const transport::OwnBell& bell, int news_fd) : own_(bell), sleeper_(*bell.line), news_fd_(news_fd) {}

  /// Wakes who sleeps by it; any thread.
  void ring() const { own_.ring(); }

  // ---- The driver.

  /// The driver must look at everything it waits for once more after this, then sleep.
  void arm_for_driver() { sleeper_.arm(has_news() ? transport::kEngineSleeps : transport::kWaiterSleeps); }
  /// As transport::Sleeper::sleep(). Requires: arm_for_driver().
  transport::Wake sleep_as_driver(Nanoseconds limit);
  /// The driver is awake.
  void disarm() { sleeper_.disarm(); }

  // ---- The engine thread, which sleeps on alarms besides and so does it itself, on these descriptors.

  /// False if a driver sleeps already, whose the bell is then. Else the engine thread must look once more, then sleep.
  bool arm_for_engine_thread() { return sleeper_.arm_unless_waiter_sleeps(); }
  int fd() const { return own_.event_fd; }
  int news_fd() const { return news_fd_; }
  /// Its sleep was ended by the bell. `has_driver` is asked after that: a driver that has come meanwhile may sleep on
  /// the same eventfd, and is woken again.
  template <typename HasDriver>
  void silence(const HasDriver& has_driver) {
    transport::silence(fd());
    if (has_news() && has_driver()) {
      wake_again();
    }
  }

 private:
  bool has_news() const { return news_fd_ >= 0; }
  transport::Wake poll_for_news(Nanoseconds limit) const;
  void wake_again() const;

  const transport::OwnBell own_;
  transport::Sleeper sleeper_;
  const int news_fd_;
};

}  // namespace ronde::engine
