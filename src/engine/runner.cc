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

/// How long to wait for ranks at the end that have just not come in time.
constexpr Nanoseconds kLetDownLimit = 500 * kMillisecond;
/// A driver that has found nothing for this long sleeps. Until then it gives its core away between looks.
constexpr Nanoseconds kYieldFor = 500 * kMicrosecond;
/// A driver looks at all else than replayed buckets once in so many times.
constexpr unsigned kLooksPerStep = 8;
/// And at the clock once in so many: that takes as long as a look at the peers.
constexpr unsigned kLooksPerClock = 4;
/// With a core to itself a driver polls this long before it begins to yield. Short: yielding costs a fifth of a
/// microsecond when nobody else wants the core, and when somebody does, polling keeps the peer from answering.
constexpr Nanoseconds kSpinFor = 5 * kMicrosecond;
/// A driver whose limit has passed goes on for so long at most while work moves: with a limit of 0 it does what can be
/// done now, also where that takes more than one step.
constexpr Nanoseconds kMoveFor = 2 * kMillisecond;

}  // namespace

Runner::Runner(std::unique_ptr<Engine> engine, const Clock& clock, const collectives::Table& table)
    : engines_(std::move(engine)),
      engine_(&engines_.job()),
      clock_(clock),
      groups_(*this, table),
      bell_(engine_->arena().control(engine_->arena().rank()).bell),
      news_fd_(engine_->news_fd()),
      spin_for_(cores_of_this_process() >= engine_->topology().local_size ? kSpinFor : 0) {
  attention_ = attention_of(engine_->topology().local_size, cores_of_this_process());
  yield_for_ = yielding_of(engine_->topology().local_size, cores_of_this_process());
  set_hooks(*engine_);
}

/// Where many share a core a round of all of them takes long, and who sleeps in it must be woken by a system call.
Nanoseconds Runner::yielding_of(int ranks, double cores) {
  return kYieldFor * std::clamp(static_cast<int>(ranks / std::max(cores, 1.0) / 4), 1, 8);
}

void Runner::set_hooks(Engine& engine) {
  engine.set_hooks([this] { on_finished(); },
                   [this](const TicketPtr& ticket, Status status, std::shared_ptr<void> owner) {
                     queue_callback(ticket, std::move(status), std::move(owner));
                   });
}

Result<std::unique_ptr<Runner>> Runner::start(std::unique_ptr<Engine> engine, const Clock& clock,
                                              const collectives::Table& table) {
  std::unique_ptr<Runner> runner(new Runner(std::move(engine), clock, table));
  runner->linger_timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!runner->linger_timer_.is_open()) {
    return Status::from_errno("timerfd_create", errno);
  }
  RONDE_ASSIGN_OR_RETURN(runner->thread_bell_, transport::make_bell_fd());
  RONDE_RETURN_IF_ERROR(runner->watch_peers());
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

Runner::~Runner() { leave_now(); }

void Runner::start_probing(ProbeTask task) {
  prober_ = Prober::start(
      std::move(task), [this] { return engine_->counters().bytes_reduced.load(std::memory_order_relaxed); },
      [this](const Thresholds& row) {
        engine_->propose_table(row);
        kick();
      });
}

// ---- Submitting

namespace {

Status no_such_group(int rank, std::int32_t group) {
  return Status::error(Code::invalid_argument,
                       "rank " + std::to_string(rank) + " belongs to no process set with the id " +
                           std::to_string(group) +
                           "; add_process_set gives the ids, and remove_process_set or shutdown end them");
}

}  // namespace

/// What `call` says to the group's engine.
template <typename Call>
Status Runner::in_group(std::int32_t group, const Call& call) const {
  if (group == 0) {
    return call(*engine_);
  }
  const EngineSet::Found found = engines_.find(group);
  return found.engine ? call(*found.engine) : no_such_group(engine_->topology().rank, group);
}

/// The same where something is handed in, which the group's engine, that may be at rest, is told.
template <typename HandIn>
Status Runner::hand_in(std::int32_t group, const HandIn& hand_in) {
  if (group == 0) {
    return hand_in(*engine_);
  }
  const EngineSet::Found found = engines_.find(group);
  if (!found.engine) {
    return no_such_group(engine_->topology().rank, group);
  }
  const Status status = hand_in(*found.engine);
  engines_.call(found.call);
  return status;
}

Status Runner::check(const Request& request) const {
  return in_group(request.group, [&](Engine& engine) { return engine.check(request); });
}

Result<std::uint64_t> Runner::take_call_number(std::int32_t group) const {
  std::uint64_t number = 0;
  RONDE_RETURN_IF_ERROR(in_group(group, [&](Engine& engine) {
    number = engine.take_call_number();
    return Status();
  }));
  return number;
}

Status Runner::refuse_call(std::int32_t group, std::uint64_t number, const std::string& why) {
  RONDE_RETURN_IF_ERROR(hand_in(group, [&](Engine& engine) {
    engine.refuse_call(number, why);
    return Status();
  }));
  kick();
  return {};
}

Nanoseconds Runner::timeout_of(std::int32_t group) const {
  Nanoseconds timeout = engine_->settings().timeout;
  static_cast<void>(in_group(group, [&](Engine& engine) {
    timeout = engine.settings().timeout;
    return Status();
  }));
  return timeout;
}

Status Runner::submit_to_wait(const TicketPtr& ticket) {
  return hand_in(ticket->request().group, [&](Engine& engine) { return engine.submit(ticket); });
}

Status Runner::submit(const TicketPtr& ticket) {
  RONDE_RETURN_IF_ERROR(submit_to_wait(ticket));
  if (engines_.has_input()) {
    kick();
  }
  return {};
}

Status Runner::resubmit(const TicketPtr& ticket, std::shared_ptr<void> owner) {
  RONDE_RETURN_IF_ERROR(
      hand_in(ticket->request().group, [&](Engine& engine) { return engine.resubmit(ticket, std::move(owner)); }));
  if (engines_.has_input()) {
    kick();  // of a bucket that is not full yet nobody needs to hear
  }
  return {};
}

Status Runner::submit_all(std::span<const TicketPtr> tickets) {
  std::size_t submitted = 0;
  const Status first = hand_in(tickets.front()->request().group,
                               [&](Engine& engine) { return engine.submit_again(tickets, submitted); });
  for (const TicketPtr& ticket : tickets.subspan(submitted)) {
    ticket->finish(first);
  }
  if (engines_.has_input()) {
    kick();
  }
  return first;
}

Status Runner::cancel(const TicketPtr& ticket) {
  RONDE_RETURN_IF_ERROR(hand_in(ticket->request().group, [&](Engine& engine) {
    engine.cancel(ticket);
    return Status();
  }));
  kick();
  return {};
}

void Runner::free_name(Ticket& ticket) {
  // Of a group that is gone the names are, too.
  static_cast<void>(in_group(ticket.request().group, [&](Engine& engine) {
    engine.free_name(ticket);
    return Status();
  }));
}

void Runner::forget(Ticket& ticket) {
  static_cast<void>(in_group(ticket.request().group, [&](Engine& engine) {
    engine.forget(ticket);
    return Status();
  }));
}

/// Somebody must look at the inbox: the driver if there is one (it is woken if it sleeps), else the engine thread.
/// A driver about to go looks at the inbox after it has given up its role, see stop_driving().
void Runner::kick() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (driver_.load(std::memory_order_relaxed)) {
    engine_->arena().ring(engine_->arena().rank());
    return;
  }
  if (!attentive_.load(std::memory_order_relaxed)) {
    wake_thread();
  }
}

/// Once, until it looks.
void Runner::wake_thread() {
  if (!kicked_.exchange(true)) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(thread_bell_.get(), &one, sizeof one);
  }
}

// ---- Waiting

void Runner::tell_wanted(Ticket& ticket) {
  static_cast<void>(in_group(ticket.request().group, [&](Engine& engine) {
    engine.want(ticket);
    return Status();
  }));
}

void Runner::want(Ticket& ticket) {
  tell_wanted(ticket);
  if (engines_.has_input()) {
    kick();
  }
}

Status Runner::wait(Ticket& ticket, Nanoseconds limit) {
  if (!ticket.is_done()) {
    tell_wanted(ticket);
    RONDE_RETURN_IF_ERROR(wait_until([&] { return ticket.is_done(); }, limit));
  }
  free_name(ticket);
  return {};
}

Status Runner::wait_any(std::span<const TicketPtr> tickets, Nanoseconds limit, std::size_t& index) {
  const auto done = [&] {
    return std::find_if(tickets.begin(), tickets.end(), [](const TicketPtr& ticket) { return ticket->is_done(); });
  };
  if (done() == tickets.end()) {
    for (const TicketPtr& ticket : tickets) {
      tell_wanted(*ticket);
    }
    RONDE_RETURN_IF_ERROR(wait_until([&] { return done() != tickets.end(); }, limit));
  }
  index = static_cast<std::size_t>(done() - tickets.begin());
  free_name(*tickets[index]);
  return {};
}

Status Runner::release(Ticket& ticket) {
  tell_wanted(ticket);
  while (!ticket.is_done()) {
    const Status status = wait_until([&] { return ticket.is_done(); }, kNever);
    if (!status && status.code() != Code::interrupted) {
      return status;  // a signal does not end this wait: whoever releases is about to free the memory
    }
  }
  free_name(ticket);
  return {};
}

template <typename Condition>
Status Runner::wait_until(const Condition& satisfied, Nanoseconds limit) {
  if (in_callback()) {
    return Status::error(
        Code::would_deadlock,
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
    if (engines_.has_input()) {
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
      return Status::error(Code::timed_out,
                           "Timed out: the wait's own limit has passed; the request is still under way");
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
  return whole || !engines_.only_replays() ? engines_.step() : engines_.poll();
}

template <typename Condition>
Status Runner::drive(const Condition& satisfied, Nanoseconds limit_at) {
  bell_.disarm();
  // A caller that waits in slices, as Python does to answer signals, has polled enough in the first one.
  bool has_slept = slept_to_limit_.load(std::memory_order_relaxed) && slept_to_limit_.exchange(false);
  Nanoseconds idle_since = has_slept ? clock_.now() - yield_for_ : 0;
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
    if (now >= limit_at && (!moved || now - limit_at >= kMoveFor)) {
      slept_to_limit_.store(has_slept && !moved);
      return Status::error(Code::timed_out,
                           "Timed out: the wait's own limit has passed; the request is still under way");
    }
    if (moved) {
      has_slept = false;
      idle_since = 0;
      continue;
    }
    if (idle_since == 0) {
      idle_since = now;
    }
    if (now - idle_since < spin_for_) {
      cpu_relax();
    } else if (now - idle_since < yield_for_) {
      sched_yield();
    } else {
      RONDE_RETURN_IF_ERROR(sleep_as_driver(satisfied, limit_at));
      has_slept = true;
      idle_since = 0;
    }
  }
}

template <typename Condition>
Status Runner::sleep_as_driver(const Condition& satisfied, Nanoseconds limit_at) {
  // Links' news ring no bell: then this thread sleeps in poll(), and whoever rings writes to the bell's eventfd.
  bell_.arm(news_fd_ < 0 ? transport::kWaiterSleeps : transport::kEngineSleeps);
  bool moved = false;
  Nanoseconds until = limit_at;
  {
    // Not try_step(): if the engine thread held the lock, this last look would not be taken, and what came before the
    // bell was armed would be seen by nobody.
    std::lock_guard lock(step_mutex_);
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
    wake = news_fd_ < 0 ? bell_.sleep_in_futex(limit) : sleep_until_news(limit);
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
  start_linger(engines_.has_outstanding() || engines_.has_input());
}

void Runner::queue_callback(const TicketPtr& ticket, Status status, std::shared_ptr<void> owner) {
  ticket->tell();
  {
    std::lock_guard lock(callback_mutex_);
    callbacks_.push_back({ticket, std::move(status), std::move(owner)});
  }
  wake_thread();
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

// ---- The end

void Runner::add_group(std::shared_ptr<Engine> engine, int call) {
  set_hooks(*engine);
  {
    std::lock_guard lock(step_mutex_);
    engines_.add(std::move(engine), call);
  }
  kick();  // a peer that has come here sooner may have rung already
}

Status Runner::leave_group(std::int32_t group) {
  const auto [engine, call] = engines_.find(group);
  if (!engine) {
    return {};
  }
  {
    std::lock_guard lock(step_mutex_);
    engine->begin_leave();
    engines_.call(call);
  }
  const Status status = wait_for_leave([&engine = engine] { return engine->leaving() == Leaving::over; });
  {
    std::lock_guard lock(step_mutex_);
    engine->finish_leave();
    engines_.remove(group);
  }
  return status.code() == Code::timed_out
             ? Status::error(Code::timed_out, "Timed out: not every rank of process set " + std::to_string(group) +
                                                  " had removed it within 10 s")
             : status;
}

/// Up to the engine's limit, signals or not; `over` is asked under the progress lock.
template <typename Condition>
Status Runner::wait_for_leave(const Condition& over) {
  const auto locked = [&] {
    std::lock_guard lock(step_mutex_);
    return over();
  };
  const Nanoseconds limit = engine_->settings().shutdown_timeout;
  const Nanoseconds limit_at = later(clock_.now(), engine_->is_let_down() ? std::min(limit, kLetDownLimit) : limit);
  Status status;
  do {
    status = wait_until(locked, limit_at - clock_.now());
  } while (status.code() == Code::interrupted);
  return status;
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
    engines_.begin_leave();
  }
  const Status status = wait_for_leave([this] { return engines_.has_left(); });
  {
    std::lock_guard lock(step_mutex_);
    engines_.finish_leave();
  }
  stop_thread();
  detach_timeline();
  if (status.code() == Code::timed_out) {
    return Status::error(Code::timed_out,
                         "Timed out: shut down here, but not every rank of the job had called shutdown in time");
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
    engines_.begin_leave();
    while (engines_.step()) {
    }
    engines_.finish_leave();
  }
  stop_thread();
  detach_timeline();
}

}  // namespace ronde::engine
