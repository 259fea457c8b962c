#include "engine/progress/driver_role.h"

#include <sched.h>

#include <algorithm>

#include "base/cpu_relax.h"
#include "engine/requests/callback_queue.h"

namespace ronde::engine {

namespace {

/// A driver looks at all else than replayed buckets once in so many times.
constexpr unsigned kLooksPerStep = 8;
/// And at the clock once in so many: that takes as long as a look at the peers.
constexpr unsigned kLooksPerClock = 4;
/// A driver whose limit has passed goes on for so long at most while work moves: with a limit of 0 it does what can be
/// done now, also where that takes more than one step.
constexpr Nanoseconds kMoveFor = 2 * kMillisecond;
/// How long the engine thread, which looks in vain at a timer that is overdue, leaves it to a driver.
constexpr Nanoseconds kLeaveToDriver = kMillisecond;

}  // namespace

DriverRole::DriverRole(EngineSet& engines, const Clock& clock, const Pacing& pacing, ThreadAlarm& alarm)
    : engines_(engines),
      clock_(clock),
      pacing_(pacing),
      alarm_(alarm),
      bell_(engines.job().connections().bell, engines.job().news_fd()) {}

/// Somebody must look at the inbox: the driver if there is one (it is woken if it sleeps), else the engine thread.
/// A driver about to go looks at the inbox after it has given up its role, see stop_driving().
void DriverRole::wake_driver() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (driver_.load(std::memory_order_relaxed)) {
    ring_own_bell();
    return;
  }
  if (!attention_.is_on()) {
    alarm_.ring();
  }
}

void DriverRole::on_finished() {
  // Between "done" and the look at the sleepers, as a sleeper counts itself before its last look at "done".
  std::atomic_thread_fence(std::memory_order_seq_cst);
  waiters_.call_if_any();
  if (driver_.load() && !driver_steps_) {
    ring_own_bell();  // the driver may sleep while the engine thread finishes its ticket
  }
}

// ---- Waiting

Status DriverRole::wait_until(const Condition& satisfied, WaitLimit limit) {
  if (CallbackQueue::runs_in_this_thread()) {
    return Status::error(
        Code::would_deadlock,
        "a wait inside a completion callback: the engine thread that runs it does the work waited for");
  }
  const Nanoseconds began = limit.span == kNever && limit.idle == kNever ? 0 : clock_.now();
  const Nanoseconds limit_at = later(began, limit.span);
  while (!satisfied()) {
    if (!driver_.exchange(true)) {
      struct Role {
        DriverRole& self;
        ~Role() { self.stop_driving(); }  // also when memory runs out in a step
      } held{*this};
      return drive(satisfied, limit_at, limit.idle);
    }
    wake_driver_if_any_input();  // what this thread has submitted is in nobody's hands yet, and the driver may sleep
    Status status;
    {
      WaitQueue::Seat seat(waiters_);
      // Between these two looks and the sleep somebody calls if the ticket finishes or the role becomes free.
      if (!satisfied() && driver_.load()) {
        const Nanoseconds until = std::min(limit_at, later(began, limit.idle));
        status = seat.sleep(until == kNever ? kNever : until - clock_.now());
      }
    }
    if (!status && !satisfied()) {
      return status;
    }
  }
  return {};
}

// ---- Driving

bool DriverRole::try_step(bool whole) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return false;
  }
  struct Steps {
    bool& flag;
    ~Steps() { flag = false; }  // also when memory runs out
  } steps{driver_steps_ = true};
  return whole || !engines_.replays() ? engines_.step() : engines_.poll();
}

Status DriverRole::drive(const Condition& satisfied, Nanoseconds limit_at, Nanoseconds idle_limit) {
  bell_.disarm();
  // A caller that waits in slices, as Python does to answer signals, has polled enough in the first one.
  bool has_slept = slept_to_limit_.load(std::memory_order_relaxed) && slept_to_limit_.exchange(false);
  Nanoseconds idle_since = has_slept ? clock_.now() - pacing_.yield_for : 0;
  Nanoseconds patient_until = idle_limit == kNever ? kNever : later(clock_.now(), idle_limit);
  for (unsigned look = 1;; ++look) {
    // What is replayed moves by words of the peers alone, so most looks, and the first, are at those.
    const bool moved = try_step(look % kLooksPerStep == 0);
    if (satisfied()) {
      return {};
    }
    if (!moved && look % kLooksPerClock != 0 && pacing_.spin_for > 0) {
      continue;
    }
    const Nanoseconds now = clock_.now();
    if (!moved && now >= patient_until) {
      return wait_limit_passed();
    }
    if (now >= limit_at && (!moved || now - limit_at >= kMoveFor)) {
      slept_to_limit_.store(has_slept && !moved);
      return wait_limit_passed();
    }
    if (moved) {
      has_slept = false;
      idle_since = 0;
      patient_until = later(now, idle_limit);
      continue;
    }
    if (idle_since == 0) {
      idle_since = now;
    }
    if (now - idle_since < pacing_.spin_for) {
      cpu_relax();
    } else if (now - idle_since < pacing_.yield_for) {
      sched_yield();
    } else {
      RONDE_RETURN_IF_ERROR(sleep_as_driver(satisfied, std::min(limit_at, patient_until)));
      has_slept = true;
      idle_since = 0;
    }
  }
}

Status DriverRole::sleep_as_driver(const Condition& satisfied, Nanoseconds limit_at) {
  bell_.arm_for_driver();
  bool moved = false;
  Nanoseconds until = limit_at;
  {
    // Not try_step(): if the engine thread held the lock, this last look would not be taken, and what came before the
    // bell was armed would be seen by nobody.
    std::lock_guard lock(mutex_);
    moved = engines_.step();
    until = std::min(until, engines_.next_timer());
  }
  if (moved || satisfied()) {
    bell_.disarm();
    return {};
  }
  transport::Wake wake = transport::Wake::rung;
  const Nanoseconds now = clock_.now();
  if (!satisfied() && until > now) {
    const Nanoseconds limit = until == kNever ? kNever : until - now;
    wake = bell_.sleep_as_driver(limit);
  }
  bell_.disarm();
  if (wake == transport::Wake::interrupted && !satisfied()) {
    return wait_interrupted();
  }
  return {};
}

void DriverRole::stop_driving() {
  // The engine thread looks at these two in the other order, so it does not take a loop of waits for the end of one.
  driver_has_gone_.store(true, std::memory_order_relaxed);
  driver_.store(false, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  waiters_.call_if_any();  // one of them takes the role, unless its own ticket is done: so the timer runs in any case
  alarm_.ring_soon(engines_.has_outstanding() || engines_.has_input());
}

// ---- The engine thread

DriverRole::Rest DriverRole::drive_until_rest(const Condition& is_wanted) {
  const Nanoseconds until = drive_as_thread(is_wanted);
  return {until, minds_bell_};
}

/// When its sleep ends at the latest.
Nanoseconds DriverRole::drive_as_thread(const Condition& is_wanted) {
  // A driver lets go of the lock between the parts of a long step only to take it again: who queued for it meanwhile
  // would be woken each time, on a core that the driver may need, and find nothing to do.
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!driver_.load()) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return clock_.now() + pacing_.attention;
  }
  while (!driver_.load() && engines_.step()) {
    if (is_wanted()) {
      return 0;
    }
  }
  minds_bell_ = false;
  const Nanoseconds now = clock_.now();
  const bool is_attentive = attention_.look(now, engines_.replayed());
  if (driver_.load()) {
    // The driver minds the bell and the timers, but it may be in a long step or lose its core: look now and then. Not
    // at a timer that is overdue, which it may be for as long as that step takes.
    return is_attentive ? now + pacing_.attention : std::max(engines_.next_timer(), now + kLeaveToDriver);
  }
  if (is_attentive) {
    return std::min(engines_.next_timer(), now + pacing_.attention);
  }
  if (engines_.has_input()) {
    return 0;  // it came before the others knew that they must wake this thread again
  }
  if (driver_has_gone_.exchange(false) && !engines_.has_outstanding()) {
    alarm_.ring_soon(false);
    return engines_.next_timer();
  }
  // A driver that has just come may sleep already: then the bell is its, and it is woken by whoever rings.
  minds_bell_ = bell_.arm_for_engine_thread();
  if (minds_bell_ && engines_.step()) {
    return 0;
  }
  return engines_.next_timer();
}

void DriverRole::silence_bell() {
  bell_.silence([this] { return driver_.load(); });
}

}  // namespace ronde::engine
