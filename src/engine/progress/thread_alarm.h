// ThreadAlarm: how the other threads of this process end the engine thread's sleep, at once or in a moment. Peers do so
// by the bell (transport/bell.h).
//
// In a moment: in a loop of blocking calls peers would otherwise wake the engine thread between any two of them, so
// after a driver has gone the bell stays silent for a moment (kLinger). The timer then hands the bell to the engine
// thread, so an idle rank sleeps for good.
#pragma once

#include <atomic>

#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::engine {

class ThreadAlarm {
 public:
  /// Before anything else, once. SYSTEM_ERROR if a descriptor is refused; then nothing rings.
  Status open();

  // ---- Any thread.

  /// Ends the sleep, or the next; costs a system call once, until the thread looks.
  void ring();
  /// The same, whatever was rung before: for what the thread looks at before it calls begin_look().
  void ring_again();
  /// Makes the engine thread look soon: one timer call for many. `work_is_under_way`: sooner, and counted from now.
  void ring_soon(bool work_is_under_way);

  // ---- The engine thread.

  /// Before it looks: what comes from now on is rung again.
  void begin_look() { rung_.store(false); }
  /// To sleep on: each is readable once it has rung, until it is silenced.
  int bell() const { return bell_.get(); }
  int timer() const { return timer_.get(); }
  void silence_bell();
  void silence_timer();

 private:
  UniqueFd bell_;   ///< an eventfd
  UniqueFd timer_;  ///< a timerfd
  std::atomic<bool> rung_{false};
  std::atomic<bool> timer_armed_{false};
};

}  // namespace ronde::engine
