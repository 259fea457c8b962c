// The two sides of a rank's bell: who sleeps says so in BellLine, who has stored something to see looks there.
//
// The wake-up that gets lost. Without fences both sides may miss each other, since each stores one word and loads the
// other's, and a processor may let the load overtake the store:
//
//     sleeper                                   ringer
//     looks at the flag: not there              stores the flag          (still in its store buffer)
//     stores "I sleep"   (in its store buffer)  looks at the bell: awake, nobody to wake
//     looks at the flag: not there
//     sleeps, for ever
//
// So each side puts a sequentially consistent fence between its store and its load. Of two such fences one comes first
// in the order all threads agree on: if the sleeper's, then the ringer sees "I sleep" and wakes it; if the ringer's,
// then the sleeper sees the flag and stays awake. The last case left is a ringer that comes between the sleeper's last
// look and its system call: it takes the state back to awake before it wakes, so the futex, which compares the word
// with the armed state, does not sleep; the eventfd stays readable until it is read.
//
// A bell belongs to the rank, not to what is waited for: whatever happens (data, a message, a death seen by another
// rank), the ringer needs to know one word only.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "transport/line.h"

namespace ronde::transport {

/// Who sleeps in this rank: one of the states below.
struct alignas(kLineBytes) BellLine {
  std::atomic<std::uint32_t> state{0};
};

/// The states of BellLine.
inline constexpr std::uint32_t kAwake = 0;  ///< nobody needs to ring
inline constexpr std::uint32_t kEngineSleeps =
    1;  ///< the engine thread sleeps on the eventfd, or a waiter whose links ring no bell
inline constexpr std::uint32_t kWaiterSleeps = 2;  ///< a waiting thread sleeps in a futex on the word itself

/// A non-blocking eventfd for a bell.
Result<UniqueFd> make_bell_fd();

/// The ringing side. Call after storing what the sleeper shall see. Wakes the sleeper if there is one; costs a fence
/// and a load if there is none. Never blocks; any thread. `event_fd` is non-blocking.
void ring_bell(BellLine& bell, int event_fd);
/// The same for a caller that has already put a seq_cst fence between its stores and this call: one fence serves the
/// bells of all peers.
void ring_bell_after_fence(BellLine& bell, int event_fd);

/// This rank's own bell, by which its peers wake it and its threads each other.
struct OwnBell {
  BellLine* line = nullptr;
  int event_fd = -1;

  /// As ring_bell().
  void ring() const { ring_bell(*line, event_fd); }
};

/// How a sleep ended.
enum class Wake {
  rung,  ///< somebody rang, maybe before the sleep began
  timeout,
  interrupted,  ///< this thread handled a signal
};

/// The sleeping side, used by one thread of the owning rank at a time:
///
///     sleeper.arm(kWaiterSleeps);
///     if (!something_to_do()) sleeper.sleep(limit);   // with kEngineSleeps: poll() the eventfd
///     sleeper.disarm();
///
/// A waiter that arms over an engine thread already asleep takes the bell from it: peers then wake the waiter only,
/// and it is for the waiter to do the work or to wake the engine thread.
class Sleeper {
 public:
  explicit Sleeper(BellLine& bell) : bell_(&bell) {}

  /// Announces the sleep. The caller must look at everything it waits for once more after this, then sleep.
  void arm(std::uint32_t state);
  /// The same for the engine thread, which must not take the bell from a waiter that sleeps already: that one would
  /// not be woken. False, and nothing is announced, if there is such a waiter.
  bool arm_unless_waiter_sleeps();
  /// Sleeps until somebody rings, `limit` nanoseconds have passed or this thread has handled a signal (also one whose
  /// handler was installed with SA_RESTART). Requires: arm(kWaiterSleeps). The state may still be armed afterwards.
  Wake sleep(Nanoseconds limit);
  /// Awake again: nobody needs to ring any more.
  void disarm();

 private:
  BellLine* bell_;
};

/// Makes a rung eventfd unreadable again. Never blocks.
void silence(int event_fd);

}  // namespace ronde::transport
