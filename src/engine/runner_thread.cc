// The runner's engine thread: drives while nobody waits, sleeps in poll(), runs callbacks.
#include <pthread.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "engine/runner.h"

namespace ronde::engine {

namespace {

/// How long the bell stays silent after a driver has gone. Longer: fewer wake-ups of the engine thread between
/// blocking calls. Shorter: what peers send while nobody waits is noticed sooner.
constexpr Nanoseconds kLinger = kMillisecond;
/// The same while other requests are under way: the next wait of a loop over many tickets comes at once, or else the
/// engine thread must take over.
constexpr Nanoseconds kShortLinger = 100 * kMicrosecond;
/// How often the engine thread looks while buckets are replayed, and how long it goes on when none is any more; and how
/// often while a driver is in a long step. A look costs a few microseconds, so about one in a hundred.
constexpr Nanoseconds kAttention = 300 * kMicrosecond;
constexpr Nanoseconds kAttentionSpan = 10 * kMillisecond;

thread_local bool in_callback_of_this_thread = false;

}  // namespace

bool Runner::in_callback() { return in_callback_of_this_thread; }

/// Makes the engine thread look at the bell soon. One timer call per linger, not per wait.
void Runner::start_linger(bool work_is_under_way) {
  if (work_is_under_way || (!timer_armed_.load(std::memory_order_relaxed) && !timer_armed_.exchange(true))) {
    timer_armed_.store(true, std::memory_order_relaxed);
    itimerspec when{};
    when.it_value.tv_nsec = work_is_under_way ? kShortLinger : kLinger;
    ::timerfd_settime(linger_timer_.get(), 0, &when, nullptr);
  }
}

void Runner::thread_main() {
  pthread_setname_np(pthread_self(), "ronde-engine");
  while (!stop_.load()) {
    try {
      kicked_.store(false);
      run_callbacks();
      const Nanoseconds until = prepare_sleep();
      sleep_in_poll(until);
    } catch (const std::exception& error) {
      // Memory has run out, or a callback has thrown: the process is not ours to end.
      std::lock_guard lock(step_mutex_);
      engines_.fail(Status::error(Code::internal, std::string("the engine thread failed: ") + error.what()));
    }
  }
  run_callbacks();
}

void Runner::run_callbacks() {
  std::vector<DueCallback> due;
  {
    std::lock_guard lock(callback_mutex_);
    due.swap(callbacks_);
  }
  in_callback_of_this_thread = true;
  for (const DueCallback& call : due) {
    call.ticket->on_done()(call.ticket, call.status);
  }
  in_callback_of_this_thread = false;
}

/// Drives until nothing moves, unless a waiter does; then takes the bell, unless a driver has it or has just had it.
/// Returns when to wake up at the latest.
Nanoseconds Runner::prepare_sleep() {
  // A driver lets go of the lock between the parts of a long step only to take it again: who queued for it meanwhile
  // would be woken each time, on a core that the driver may need, and find nothing to do.
  std::unique_lock lock(step_mutex_, std::defer_lock);
  if (!driver_.load()) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return clock_.now() + kAttention;
  }
  while (!driver_.load() && engines_.step()) {
    bool callbacks_due = false;
    {
      std::lock_guard callback_lock(callback_mutex_);
      callbacks_due = !callbacks_.empty();
    }
    if (callbacks_due) {
      return 0;
    }
  }
  const Nanoseconds now = clock_.now();
  const bool attentive = is_attentive(now);
  if (driver_.load()) {
    // The driver minds the bell and the timers, but it may be in a long step or lose its core: look now and then. Not
    // at a timer that is overdue, which it may be for as long as that step takes.
    return attentive ? now + kAttention : std::max(engines_.next_timer(), now + kLinger);
  }
  if (attentive) {
    return std::min(engines_.next_timer(), now + kAttention);
  }
  if (engines_.has_input()) {
    return 0;  // it came before the others knew that they must wake this thread again
  }
  if (lingering_.exchange(false) && !engines_.has_outstanding()) {
    start_linger(false);
    return engines_.next_timer();
  }
  // A driver that has just come may sleep already: then the bell is its, and it is woken by whoever rings.
  if (bell_.arm_unless_waiter_sleeps() && engines_.step()) {
    return 0;
  }
  return engines_.next_timer();
}

bool Runner::is_attentive(Nanoseconds now) {
  const std::uint64_t instances = engines_.replayed();
  if (instances != seen_instances_) {
    seen_instances_ = instances;
    attentive_since_ = now;
  }
  const bool attentive = instances > 0 && now - attentive_since_ < kAttentionSpan;
  attentive_.store(attentive, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // then who submits sees it, or the caller sees the submit
  return attentive;
}

void Runner::sleep_in_poll(Nanoseconds until) {
  std::vector<pollfd>& fds = poll_set_;  // a member: what is on this thread's stack, a forked child's leak check misses
  fds.clear();
  fds.push_back({engine_->arena().bell_fd(), POLLIN, 0});
  fds.push_back({linger_timer_.get(), POLLIN, 0});
  for (int fd : peer_fds_) {
    fds.push_back({fd, POLLIN, 0});  // poll skips negative descriptors
  }
  timespec limit{};
  const timespec* timeout = nullptr;
  if (until != kNever) {
    const Nanoseconds span = std::max<Nanoseconds>(0, until - clock_.now());
    limit.tv_sec = span / kSecond;
    limit.tv_nsec = span % kSecond;
    timeout = &limit;
  }
  if (::ppoll(fds.data(), fds.size(), timeout, nullptr) <= 0) {
    return;
  }
  if (fds[0].revents != 0) {
    transport::silence(engine_->arena().bell_fd());
  }
  if (fds[1].revents != 0) {
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = ::read(linger_timer_.get(), &expirations, sizeof expirations);
    timer_armed_.store(false);
  }
  for (std::size_t peer = 0; peer < peer_fds_.size(); ++peer) {
    if (fds[peer + 2].revents != 0) {
      peer_fds_[peer] = -1;
      engines_.notice_end(static_cast<int>(peer));
      engine_->arena().ring(engine_->arena().rank());  // a sleeping driver shall look at it
    }
  }
}

void Runner::stop_thread() {
  stop_.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(engine_->arena().bell_fd(), &one, sizeof one);
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // exit() inside a callback: the process ends before this thread does
  } else if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace ronde::engine
