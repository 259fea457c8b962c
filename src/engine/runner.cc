#include "engine/runner.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/cores.h"
#include "base/cpu_relax.h"
#include "base/futex.h"

namespace ronde::engine {

namespace {

/// How long the bell stays silent after a driver has gone. Longer: fewer wake-ups of the engine thread between
/// blocking calls. Shorter: what peers send while nobody waits is noticed sooner.
constexpr Nanoseconds kLinger = kMillisecond;
/// The same while other requests are under way: the next wait of a loop over many tickets comes at once, or else the
/// engine thread must take over.
constexpr Nanoseconds kShortLinger = 100 * kMicrosecond;
/// How often the engine thread looks while buckets are replayed, and how long it goes on when none is any more. A look
/// costs a few microseconds, so about one in a hundred.
constexpr Nanoseconds kAttention = 300 * kMicrosecond;
constexpr Nanoseconds kAttentionSpan = 10 * kMillisecond;
/// A driver that has found nothing for this long sleeps. Until then it gives its core away between looks.
constexpr Nanoseconds kYieldFor = 500 * kMicrosecond;
/// A driver looks at all else than replayed buckets once in so many times.
constexpr unsigned kLooksPerStep = 8;
/// And at the clock once in so many: that takes as long as a look at the peers.
constexpr unsigned kLooksPerClock = 4;
/// With a core to itself a driver polls this long before it begins to yield. Short: yielding costs a fifth of a
/// microsecond when nobody else wants the core, and when somebody does, polling keeps the peer from answering.
constexpr Nanoseconds kSpinFor = 5 * kMicrosecond;

thread_local bool in_callback_of_this_thread = false;

}  // namespace

Runner::Runner(std::unique_ptr<Engine> engine, const Clock& clock)
    : engine_(std::move(engine)),
      clock_(clock),
      bell_(engine_->arena().control(engine_->arena().rank()).bell),
      spin_for_(cores_of_this_process() >= engine_->topology().local_size ? kSpinFor : 0) {
  for (int peer = 0; peer < engine_->arena().size(); ++peer) {
    peer_fds_.push_back(peer == engine_->arena().rank() ? -1 : engine_->arena().peer_fd(peer));
  }
  engine_->set_hooks([this] { on_finished(); },
                     [this](const TicketPtr& ticket, Status status, std::shared_ptr<void> owner) {
                       queue_callback(ticket, std::move(status), std::move(owner));
                     });
}

Result<std::unique_ptr<Runner>> Runner::start(std::unique_ptr<Engine> engine, const Clock& clock) {
  std::unique_ptr<Runner> runner(new Runner(std::move(engine), clock));
  runner->linger_timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!runner->linger_timer_.is_open()) {
    return Status::from_errno("timerfd_create", errno);
  }
  // Threads inherit the mask: with every signal blocked here none is ever handled on the engine thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    runner->thread_ = std::thread([self = runner.get()] { self->thread_main(); });
  } catch (const std::system_error& error) {
    status = Status::from_errno("starting the engine thread", error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!status) {
    return status;
  }
  return runner;
}

Runner::~Runner() {
  leave_now();
}

void Runner::start_probing(ProbeTask task) {
  prober_ = Prober::start(
      std::move(task), [this] { return engine_->counters().bytes_reduced.load(std::memory_order_relaxed); },
      [this](const Thresholds& row) {
        engine_->propose_table(row);
        kick();
      });
}

// ---- Submitting

Status Runner::submit(const TicketPtr& ticket) {
  RONDE_RETURN_IF_ERROR(engine_->submit(ticket));
  if (engine_->has_input()) {
    kick();
  }
  return {};
}

Status Runner::resubmit(const TicketPtr& ticket, std::shared_ptr<void> owner) {
  RONDE_RETURN_IF_ERROR(engine_->resubmit(ticket, std::move(owner)));
  if (engine_->has_input()) {
    kick();  // of a bucket that is not full yet nobody needs to hear
  }
  return {};
}

Status Runner::submit_all(std::span<const TicketPtr> tickets) {
  std::size_t submitted = 0;
  const Status first = engine_->submit_again(tickets, submitted);
  for (const TicketPtr& ticket : tickets.subspan(submitted)) {
    ticket->finish(first);
  }
  if (engine_->has_input()) {
    kick();
  }
  return first;
}

/// Somebody must look at the inbox: the driver if there is one (it is woken if it sleeps), else the engine thread.
/// A driver about to go looks at the inbox after it has given up its role, see stop_driving().
void Runner::kick() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (driver_.load(std::memory_order_relaxed)) {
    engine_->arena().ring(engine_->arena().rank());
    return;
  }
  if (!attentive_.load(std::memory_order_relaxed) && !kicked_.exchange(true)) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(engine_->arena().bell_fd(), &one, sizeof one);
  }
}

// ---- Waiting

void Runner::want(Ticket& ticket) {
  engine_->want(ticket);
  if (engine_->has_input()) {
    kick();
  }
}

Status Runner::wait(Ticket& ticket, Nanoseconds limit) {
  if (!ticket.is_done()) {
    engine_->want(ticket);
    RONDE_RETURN_IF_ERROR(wait_until([&] { return ticket.is_done(); }, limit));
  }
  engine_->free_name(ticket);
  return {};
}

Status Runner::wait_any(std::span<const TicketPtr> tickets, Nanoseconds limit, std::size_t& index) {
  const auto done = [&] {
    return std::find_if(tickets.begin(), tickets.end(), [](const TicketPtr& ticket) { return ticket->is_done(); });
  };
  if (done() == tickets.end()) {
    for (const TicketPtr& ticket : tickets) {
      engine_->want(*ticket);
    }
    RONDE_RETURN_IF_ERROR(wait_until([&] { return done() != tickets.end(); }, limit));
  }
  index = static_cast<std::size_t>(done() - tickets.begin());
  engine_->free_name(*tickets[index]);
  return {};
}

Status Runner::release(Ticket& ticket) {
  engine_->want(ticket);
  while (!ticket.is_done()) {
    const Status status = wait_until([&] { return ticket.is_done(); }, kNever);
    if (!status && status.code() != Code::interrupted) {
      return status;  // a signal does not end this wait: whoever releases is about to free the memory
    }
  }
  engine_->free_name(ticket);
  return {};
}

template <typename Condition>
Status Runner::wait_until(const Condition& satisfied, Nanoseconds limit) {
  if (in_callback()) {
    return Status::error(Code::would_deadlock,
                         "a wait inside a completion callback: the engine thread that runs it does the work waited for");
  }
  const Nanoseconds limit_at = limit == kNever ? kNever : later(clock_.now(), limit);
  while (!satisfied()) {
    if (!driver_.exchange(true)) {
      struct Role {
        Runner& runner;
        ~Role() { runner.stop_driving(); }  // also when memory runs out in a step
      } role{*this};
      return drive(satisfied, limit_at);
    }
    if (engine_->has_input()) {
      kick();  // what this thread has submitted is in nobody's hands yet, and the driver may sleep
    }
    const std::uint32_t seen = calls_.load();
    sleepers_.fetch_add(1);
    // Between these two looks and the futex the word changes if the ticket finishes or the role becomes free.
    Status status;
    if (!satisfied() && driver_.load()) {
      status = sleep_until_called(seen, limit_at);
    }
    sleepers_.fetch_sub(1);
    if (!status && !satisfied()) {
      return status;
    }
  }
  return {};
}

Status Runner::sleep_until_called(std::uint32_t seen, Nanoseconds limit_at) {
  Nanoseconds limit = kNever;
  if (limit_at != kNever) {
    limit = limit_at - clock_.now();
    if (limit <= 0) {
      return Status::error(Code::timed_out, "the wait's own limit has passed; the request is still under way");
    }
  }
  if (futex_wait(calls_, seen, limit) == FutexResult::interrupted) {
    return Status::error(Code::interrupted, "a signal interrupted the wait; the request is still under way");
  }
  return {};
}

void Runner::call_sleepers() {
  calls_.fetch_add(1);
  if (sleepers_.load() > 0) {
    futex_wake_all(calls_);
  }
}

bool Runner::try_step(bool whole) {
  std::unique_lock lock(step_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return false;
  }
  struct Steps {
    bool& flag;
    ~Steps() { flag = false; }  // also when memory runs out
  } steps{driver_steps_ = true};
  return whole || !engine_->only_replays() ? engine_->step() : engine_->poll();
}

template <typename Condition>
Status Runner::drive(const Condition& satisfied, Nanoseconds limit_at) {
  bell_.disarm();
  // A caller that waits in slices, as Python does to answer signals, has polled enough in the first one.
  const bool has_polled = timed_out_.load(std::memory_order_relaxed) && timed_out_.exchange(false);
  Nanoseconds idle_since = has_polled ? clock_.now() - kYieldFor : 0;
  for (unsigned look = 1;; ++look) {
    // What is replayed moves by words of the peers alone, so most looks, and the first, are at those.
    const bool moved = try_step(look % kLooksPerStep == 0);
    if (satisfied()) {
      return {};
    }
    if (!moved && look % kLooksPerClock != 0 && spin_for_ > 0) {
      continue;
    }
    const Nanoseconds now = clock_.now();
    if (now >= limit_at) {
      timed_out_.store(!moved);
      return Status::error(Code::timed_out, "the wait's own limit has passed; the request is still under way");
    }
    if (moved) {
      idle_since = 0;
      continue;
    }
    if (idle_since == 0) {
      idle_since = now;
    }
    if (now - idle_since < spin_for_) {
      cpu_relax();
    } else if (now - idle_since < kYieldFor) {
      sched_yield();
    } else {
      RONDE_RETURN_IF_ERROR(sleep_as_driver(satisfied, limit_at));
      idle_since = 0;
    }
  }
}

template <typename Condition>
Status Runner::sleep_as_driver(const Condition& satisfied, Nanoseconds limit_at) {
  bell_.arm(transport::kWaiterSleeps);
  bool moved = false;
  Nanoseconds until = limit_at;
  {
    // Not try_step(): if the engine thread held the lock, this last look would not be taken, and what came before the
    // bell was armed would be seen by nobody.
    std::lock_guard lock(step_mutex_);
    moved = engine_->step();
    until = std::min(until, engine_->next_timer());
  }
  if (moved || satisfied()) {
    bell_.disarm();
    return {};
  }
  transport::Wake wake = transport::Wake::rung;
  const Nanoseconds now = clock_.now();
  if (!satisfied() && until > now) {
    wake = bell_.sleep_in_futex(until == kNever ? kNever : until - now);
  }
  bell_.disarm();
  if (wake == transport::Wake::interrupted && !satisfied()) {
    return Status::error(Code::interrupted, "a signal interrupted the wait; the request is still under way");
  }
  return {};
}

void Runner::stop_driving() {
  // The engine thread looks at these two in the other order, so it does not take a loop of waits for the end of one.
  lingering_.store(true, std::memory_order_relaxed);
  driver_.store(false, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load() > 0) {
    call_sleepers();  // one of them takes the role, unless its own ticket is done: so the timer runs in any case
  }
  start_linger(engine_->has_outstanding() || engine_->has_input());
}

/// Makes the engine thread look at the bell soon. One timer call per linger, not per wait.
void Runner::start_linger(bool work_is_under_way) {
  if (work_is_under_way || (!timer_armed_.load(std::memory_order_relaxed) && !timer_armed_.exchange(true))) {
    timer_armed_.store(true, std::memory_order_relaxed);
    itimerspec when{};
    when.it_value.tv_nsec = work_is_under_way ? kShortLinger : kLinger;
    ::timerfd_settime(linger_timer_.get(), 0, &when, nullptr);
  }
}

void Runner::queue_callback(const TicketPtr& ticket, Status status, std::shared_ptr<void> owner) {
  {
    std::lock_guard lock(callback_mutex_);
    callbacks_.push_back({ticket, std::move(status), std::move(owner)});
  }
  if (!kicked_.exchange(true)) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(engine_->arena().bell_fd(), &one, sizeof one);
  }
}

void Runner::on_finished() {
  // Between "done" and the look at the sleepers, as a sleeper counts itself before its last look at "done".
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load() > 0) {
    call_sleepers();
  }
  if (driver_.load() && !driver_steps_) {
    // The driver may sleep while the engine thread finishes its ticket.
    engine_->arena().ring(engine_->arena().rank());
  }
}

// ---- The engine thread

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
      engine_->fail(Status::error(Code::internal, std::string("the engine thread failed: ") + error.what()));
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
  std::lock_guard lock(step_mutex_);
  while (!driver_.load() && engine_->step()) {
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
  if (is_attentive(now)) {
    return std::min(engine_->next_timer(), now + kAttention);
  }
  if (!driver_.load() && engine_->has_input()) {
    return 0;  // it came before the others knew that they must wake this thread again
  }
  if (driver_.load()) {
    // The driver minds the bell and the timers, but it may be in a long step or lose its core: look now and then.
    return std::max(engine_->next_timer(), clock_.now() + kLinger);
  }
  if (lingering_.exchange(false) && !engine_->has_outstanding()) {
    start_linger(false);
    return engine_->next_timer();
  }
  // A driver that has just come may sleep already: then the bell is its, and it is woken by whoever rings.
  if (bell_.arm_unless_waiter_sleeps() && engine_->step()) {
    return 0;
  }
  return engine_->next_timer();
}

bool Runner::is_attentive(Nanoseconds now) {
  const std::uint64_t instances = engine_->replay_counters().instances.load(std::memory_order_relaxed);
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
      engine_->notice_end(static_cast<int>(peer));
      engine_->arena().ring(engine_->arena().rank());  // a sleeping driver shall look at it
    }
  }
}

// ---- The end

bool Runner::in_callback() { return in_callback_of_this_thread; }

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

Status Runner::shutdown() {
  if (in_callback()) {
    return Status::error(Code::would_deadlock, "shutdown inside a completion callback, which it would wait for");
  }
  if (left_.exchange(true)) {
    return {};
  }
  prober_.reset();
  {
    std::lock_guard lock(step_mutex_);
    engine_->begin_leave();
  }
  const auto over = [this] {
    std::lock_guard lock(step_mutex_);
    return engine_->leaving() == Leaving::over;
  };
  const Nanoseconds limit_at = later(clock_.now(), engine_->settings().shutdown_timeout);
  Status status;
  do {
    status = wait_until(over, limit_at - clock_.now());
  } while (status.code() == Code::interrupted);
  {
    std::lock_guard lock(step_mutex_);
    engine_->finish_leave();
  }
  stop_thread();
  if (status.code() == Code::timed_out) {
    return Status::error(Code::timed_out,
                         "shut down here, but not every rank of the job had called shutdown within 10 s");
  }
  return status;
}

void Runner::leave_now() {
  if (left_.exchange(true)) {
    return;
  }
  prober_.reset();
  {
    std::lock_guard lock(step_mutex_);
    engine_->begin_leave();
    while (engine_->step()) {
    }
    engine_->finish_leave();
  }
  stop_thread();
}

}  // namespace ronde::engine
