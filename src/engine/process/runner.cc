#include "engine/process/runner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/cores.h"

namespace ronde::engine {

namespace {

/// How long to wait for ranks at the end that have just not come in time.
constexpr Nanoseconds kLetDownLimit = 500 * kMillisecond;

}  // namespace

Runner::Runner(std::unique_ptr<Engine> engine, std::unique_ptr<GroupConnector> groups, const Clock& clock,
               std::shared_ptr<GroupIds> ids)
    : engines_(std::move(engine)),
      clock_(clock),
      callbacks_(engines_.job().topology().rank),
      role_(engines_, clock, Pacing::of(engines_.job().topology().local_size, cores_of_this_process()), alarm_),
      group_ids_(ids ? std::move(ids) : std::make_shared<GroupIds>()),
      job_groups_(*this, std::move(groups)),
      process_sets_(*this, job_groups_, *group_ids_),
      member_groups_(job_groups_, *group_ids_, engines_.job().topology().rank),
      timeline_(engines_.job().topology().rank, engines_.job().topology().size, clock,
                [this](observe::Observer* observer) {
                  const auto lock = role_.lock();
                  engines_.observe(observer);
                }) {
  group_ids_->begin_job();
  set_hooks(engines_.job());
}

void Runner::set_hooks(Engine& engine) {
  engine.set_hooks([this] { role_.on_finished(); },
                   [this](const TicketPtr& ticket, Status status, std::shared_ptr<void> owner) {
                     ticket->tell();
                     callbacks_.push(ticket, std::move(status), std::move(owner));
                     alarm_.ring();
                   });
}

Result<std::unique_ptr<Runner>> Runner::start(std::unique_ptr<Engine> engine, std::unique_ptr<GroupConnector> groups,
                                              const Clock& clock, std::shared_ptr<GroupIds> ids) {
  std::unique_ptr<Runner> runner(new Runner(std::move(engine), std::move(groups), clock, std::move(ids)));
  RONDE_RETURN_IF_ERROR(runner->start_thread());
  return runner;
}

Status Runner::start_thread() {
  RONDE_RETURN_IF_ERROR(alarm_.open());
  RONDE_ASSIGN_OR_RETURN(PeerProcesses peers, PeerProcesses::watch(engine().connections().processes));
  RONDE_ASSIGN_OR_RETURN(thread_, EngineThread::start(engines_, role_, callbacks_, alarm_, std::move(peers), clock_));
  return {};
}

Runner::~Runner() { leave_now(); }

void Runner::start_probing(ProbeTask task) {
  prober_ = Prober::start(
      std::move(task), [this] { return engine().counters().bytes_reduced.load(std::memory_order_relaxed); },
      [this](const Thresholds& row) {
        engine().propose_table(row);
        role_.wake_driver();
      });
}

// ---- Submitting

Status Runner::check(const Request& request) const {
  return engines_.in_group(request.group, [&](Engine& engine) { return engine.check(request); });
}

Result<std::uint64_t> Runner::take_call_number(std::int32_t group) const {
  std::uint64_t number = 0;
  RONDE_RETURN_IF_ERROR(engines_.in_group(group, [&](Engine& engine) {
    number = engine.take_call_number();
    return Status();
  }));
  return number;
}

Status Runner::refuse_call(std::int32_t group, std::uint64_t number, const std::string& why) {
  RONDE_RETURN_IF_ERROR(engines_.hand_in(group, [&](Engine& engine) {
    engine.refuse_call(number, why);
    return Status();
  }));
  role_.wake_driver();
  return {};
}

Nanoseconds Runner::timeout_of(std::int32_t group) const {
  Nanoseconds timeout = engines_.job().settings().timeout;
  static_cast<void>(engines_.in_group(group, [&](Engine& engine) {
    timeout = engine.settings().timeout;
    return Status();
  }));
  return timeout;
}

Status Runner::submit_to_wait(const TicketPtr& ticket) {
  return engines_.hand_in(ticket->request().group, [&](Engine& engine) { return engine.submit(ticket); });
}

Status Runner::submit(const TicketPtr& ticket) {
  RONDE_RETURN_IF_ERROR(submit_to_wait(ticket));
  role_.wake_driver_if_any_input();
  return {};
}

Status Runner::resubmit(const TicketPtr& ticket, std::shared_ptr<void> owner) {
  RONDE_RETURN_IF_ERROR(engines_.hand_in(ticket->request().group,
                                         [&](Engine& engine) { return engine.resubmit(ticket, std::move(owner)); }));
  role_.wake_driver_if_any_input();  // of a bucket that is not full yet nobody needs to hear
  return {};
}

Status Runner::submit_all(std::span<const TicketPtr> tickets) {
  std::size_t submitted = 0;
  const Status first = engines_.hand_in(tickets.front()->request().group,
                                        [&](Engine& engine) { return engine.submit_again(tickets, submitted); });
  for (const TicketPtr& ticket : tickets.subspan(submitted)) {
    ticket->finish(first);
  }
  role_.wake_driver_if_any_input();
  return first;
}

Status Runner::cancel(const TicketPtr& ticket) {
  RONDE_RETURN_IF_ERROR(engines_.hand_in(ticket->request().group, [&](Engine& engine) {
    engine.cancel(ticket);
    return Status();
  }));
  role_.wake_driver();
  return {};
}

void Runner::free_name(Ticket& ticket) {
  // Of a group that is gone the names are, too.
  static_cast<void>(engines_.in_group(ticket.request().group, [&](Engine& engine) {
    engine.free_name(ticket);
    return Status();
  }));
}

void Runner::forget(Ticket& ticket) {
  static_cast<void>(engines_.in_group(ticket.request().group, [&](Engine& engine) {
    engine.forget(ticket);
    return Status();
  }));
}

// ---- Waiting

void Runner::tell_wanted(Ticket& ticket) {
  static_cast<void>(engines_.in_group(ticket.request().group, [&](Engine& engine) {
    engine.want(ticket);
    return Status();
  }));
}

void Runner::want(Ticket& ticket) {
  tell_wanted(ticket);
  role_.wake_driver_if_any_input();
}

Status Runner::wait(Ticket& ticket, WaitLimit limit) {
  if (!ticket.is_done()) {
    tell_wanted(ticket);
    RONDE_RETURN_IF_ERROR(role_.wait_until([&] { return ticket.is_done(); }, limit));
  }
  free_name(ticket);
  return {};
}

Status Runner::wait_any(std::span<const TicketPtr> tickets, WaitLimit limit, std::size_t& index) {
  const auto done = [&] {
    return std::find_if(tickets.begin(), tickets.end(), [](const TicketPtr& ticket) { return ticket->is_done(); });
  };
  if (done() == tickets.end()) {
    for (const TicketPtr& ticket : tickets) {
      tell_wanted(*ticket);
    }
    RONDE_RETURN_IF_ERROR(role_.wait_until([&] { return done() != tickets.end(); }, limit));
  }
  index = static_cast<std::size_t>(done() - tickets.begin());
  free_name(*tickets[index]);
  return {};
}

Status Runner::release(Ticket& ticket) {
  tell_wanted(ticket);
  while (!ticket.is_done()) {
    const Status status = role_.wait_until([&] { return ticket.is_done(); }, kNever);
    if (!status && status.code() != Code::interrupted) {
      return status;  // a signal does not end this wait: whoever releases is about to free the memory
    }
  }
  free_name(ticket);
  return {};
}

// ---- Groups

Status Runner::end_group(std::int32_t group) {
  return MemberGroups::has(group) ? member_groups_.leave(group) : process_sets_.remove(group);
}

Status Runner::call(const TicketPtr& ticket) {
  RONDE_RETURN_IF_ERROR(submit_to_wait(ticket));
  return release(*ticket);
}

void Runner::add_group(std::shared_ptr<Engine> engine, int call) {
  set_hooks(*engine);
  {
    const auto lock = role_.lock();
    engines_.add(std::move(engine), call);
  }
  role_.wake_driver();  // a peer that has come here sooner may have rung already
}

Status Runner::leave_group(std::int32_t group) {
  const auto [engine, call] = engines_.find(group);
  if (!engine) {
    return {};
  }
  {
    const auto lock = role_.lock();
    engine->begin_leave();
    engines_.call(call);
  }
  const Status status = wait_for_leave([&engine = engine] { return engine->leaving() == Leaving::over; });
  {
    const auto lock = role_.lock();
    engine->finish_leave();
    engines_.remove(group);
  }
  return status.code() == Code::timed_out
             ? Status::error(Code::timed_out, "Timed out: not every rank of process set " + std::to_string(group) +
                                                  " had removed it within 10 s")
             : status;
}

// ---- The end

/// Up to the engine's limit, signals or not; `over` is asked under the progress lock.
template <typename Condition>
Status Runner::wait_for_leave(const Condition& over) {
  const auto locked = [&] {
    const auto lock = role_.lock();
    return over();
  };
  const Nanoseconds limit = engine().settings().shutdown_timeout;
  const Nanoseconds limit_at = later(clock_.now(), engine().is_let_down() ? std::min(limit, kLetDownLimit) : limit);
  Status status;
  do {
    status = role_.wait_until(locked, limit_at - clock_.now());
  } while (status.code() == Code::interrupted);
  return status;
}

void Runner::end_thread() {
  if (thread_) {
    thread_->stop();
  }
  timeline_.end();
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
    const auto lock = role_.lock();
    engines_.begin_leave();
  }
  const Status status = wait_for_leave([this] { return engines_.has_left(); });
  {
    const auto lock = role_.lock();
    engines_.finish_leave();
  }
  end_thread();
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
    const auto lock = role_.lock();
    engines_.begin_leave();
    while (engines_.step()) {
    }
    engines_.finish_leave();
  }
  end_thread();
  // At the end of a process nobody destroys this runner: what peers have not taken yet would go with the process.
  if (const auto& agreement = engine().connections().agreement) {
    agreement->finish();
  }
}

}  // namespace ronde::engine
