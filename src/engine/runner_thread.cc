// The runner's engine thread: drives while nobody waits, sleeps in poll(), runs callbacks.
#include <cxxabi.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <exception>
#include <iterator>
#include <new>

#include "base/log.h"
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

Nanoseconds Runner::attention_of(int ranks, double cores) {
  return kAttention * std::max(1, static_cast<int>(std::ceil(ranks / std::max(cores, 1.0))));
}

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
      // Memory has run out: the process is not ours to end.
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
  for (const DueCallback& call : due) {
    run(call);
  }
}

/// What it throws goes to the log: the work has ended, and others' callbacks are due.
void Runner::run(const DueCallback& call) {
  struct Mark {
    Mark() { in_callback_of_this_thread = true; }
    ~Mark() { in_callback_of_this_thread = false; }
  };
  try {
    const Mark mark;
    call.ticket->on_done()(call.ticket, call.status);
  } catch (const abi::__forced_unwind&) {
    throw;  // it has ended its thread, which nothing may stop
  } catch (const std::exception& error) {
    log_thrown(call.ticket->name(), error.what());
  } catch (...) {
    log_thrown(call.ticket->name(), "something that is no std::exception");
  }
}

void Runner::log_thrown(const std::string& name, const char* what) const {
  try {
    log(LogLevel::error, engine_->topology().rank,
        "the completion callback of '" + name + "' has thrown: " + what +
            ". It counts as done; a callback should catch what it calls throws");
  } catch (const std::bad_alloc&) {
    // Then it goes unsaid: the other callbacks do not.
  }
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
    return clock_.now() + attention_;
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
  minds_bell_ = false;
  const Nanoseconds now = clock_.now();
  const bool attentive = is_attentive(now);
  if (driver_.load()) {
    // The driver minds the bell and the timers, but it may be in a long step or lose its core: look now and then. Not
    // at a timer that is overdue, which it may be for as long as that step takes.
    return attentive ? now + attention_ : std::max(engines_.next_timer(), now + kLinger);
  }
  if (attentive) {
    return std::min(engines_.next_timer(), now + attention_);
  }
  if (engines_.has_input()) {
    return 0;  // it came before the others knew that they must wake this thread again
  }
  if (lingering_.exchange(false) && !engines_.has_outstanding()) {
    start_linger(false);
    return engines_.next_timer();
  }
  // A driver that has just come may sleep already: then the bell is its, and it is woken by whoever rings.
  minds_bell_ = bell_.arm_unless_waiter_sleeps();
  if (minds_bell_ && engines_.step()) {
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

/// So that a sleep asks the kernel for one descriptor, however many peers there are.
Status Runner::watch_peers() {
  peers_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!peers_.is_open()) {
    return Status::from_errno("epoll_create1", errno);
  }
  for (int peer = 0; peer < engine_->arena().size(); ++peer) {
    const int fd = peer == engine_->arena().rank() ? -1 : engine_->arena().peer_fd(peer);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(peer);
    if (fd >= 0 && ::epoll_ctl(peers_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return Status::from_errno("epoll_ctl of a peer's process", errno);
    }
  }
  return {};
}

void Runner::notice_ends() {
  epoll_event events[16];
  const int count = ::epoll_wait(peers_.get(), events, 16, 0);
  for (int i = 0; i < count; ++i) {
    const auto peer = static_cast<int>(events[i].data.u32);
    ::epoll_ctl(peers_.get(), EPOLL_CTL_DEL, engine_->arena().peer_fd(peer), nullptr);
    engines_.notice_end(peer);
    engine_->arena().ring(engine_->arena().rank());  // a sleeping driver shall look at it
  }
}

namespace {

/// How long ppoll() may take until `limit` has passed; null for kNever.
const timespec* ppoll_timeout(Nanoseconds limit, timespec& place) {
  if (limit == kNever) {
    return nullptr;
  }
  const Nanoseconds span = std::max<Nanoseconds>(0, limit);
  place.tv_sec = span / kSecond;
  place.tv_nsec = span % kSecond;
  return &place;
}

}  // namespace

void Runner::sleep_in_poll(Nanoseconds until) {
  // What is not open, or not minded, is left out by its negative number.
  pollfd fds[] = {{thread_bell_.get(), POLLIN, 0},
                  {linger_timer_.get(), POLLIN, 0},
                  {peers_.get(), POLLIN, 0},
                  {minds_bell_ ? engine_->arena().bell_fd() : -1, POLLIN, 0},
                  {minds_bell_ ? news_fd_ : -1, POLLIN, 0}};
  timespec limit{};
  if (::ppoll(fds, std::size(fds), ppoll_timeout(until == kNever ? kNever : until - clock_.now(), limit), nullptr) <=
      0) {
    return;
  }
  if (fds[0].revents != 0) {
    transport::silence(thread_bell_.get());
  }
  if (fds[1].revents != 0) {
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = ::read(linger_timer_.get(), &expirations, sizeof expirations);
    timer_armed_.store(false);
  }
  if (fds[2].revents != 0) {
    notice_ends();
  }
  if (fds[3].revents != 0) {
    transport::silence(engine_->arena().bell_fd());
    if (news_fd_ >= 0 && driver_.load()) {  // that has come meanwhile, and sleeps on the same eventfd perhaps
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = ::write(engine_->arena().bell_fd(), &one, sizeof one);
    }
  }
}

/// A driver's sleep where links have news of their own.
transport::Wake Runner::sleep_until_news(Nanoseconds limit) {
  pollfd fds[] = {{engine_->arena().bell_fd(), POLLIN, 0}, {news_fd_, POLLIN, 0}};
  timespec place{};
  const int count = ::ppoll(fds, std::size(fds), ppoll_timeout(limit, place), nullptr);
  if (count < 0) {
    return errno == EINTR ? transport::Wake::interrupted : transport::Wake::rung;
  }
  if (fds[0].revents != 0) {
    transport::silence(engine_->arena().bell_fd());
  }
  return count == 0 ? transport::Wake::timeout : transport::Wake::rung;
}

void Runner::stop_thread() {
  stop_.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(thread_bell_.get(), &one, sizeof one);
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // exit() inside a callback: the process ends before this thread does
  } else if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace ronde::engine
