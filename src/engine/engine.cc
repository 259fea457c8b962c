#include "engine/engine.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "engine/plan_runs.h"
#include "engine/stand_in.h"

namespace ronde::engine {

namespace {

constexpr int kMessagesPerStep = 256;  ///< so that one step stays short

Group or_everyone(Group group, int size) {
  if (group.ranks.empty()) {
    group.ranks.resize(static_cast<std::size_t>(size));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
  }
  return group;
}

}  // namespace

Engine::Engine(Topology topology, Connections connections, Settings settings, const Clock& clock, Group group,
               std::shared_ptr<SharedHeap> jobs_heap)
    : topology_(topology),
      settings_(settings),
      clock_(clock),
      connections_(std::move(connections)),
      peers_(*connections_.peers),
      owns_heap_(!jobs_heap),
      shared_heap_(owns_heap_ ? std::make_shared<SharedHeap>(*connections_.arena) : std::move(jobs_heap)),
      backend_(*connections_.backend),
      group_(or_everyone(std::move(group), topology.size)),
      control_(connections_.agreement.get(), topology.rank, topology.size),
      loss_(peers_),
      replay_(group_, backend_, peers_, loss_, pending_, clock),
      submissions_(group_, rank_of(topology.rank), backend_, pending_, replay_, counters_.requests),
      executor_(
          backend_, [this](const PlanRun& run) { plan_started(run); },
          [this](const PlanRun& run, const Status& status) { plan_finished(run, status); },
          [this](std::uint32_t bucket) { replay_.launch(bucket); }),
      pairs_(group_, connections_.all_share_memory() ? connections_.arena.get() : nullptr, *shared_heap_, control_,
             peers_, [this](const TicketPtr& ticket, Status status) { finish(ticket, std::move(status)); }),
      stall_(settings.stall),
      pair_is_gone_(static_cast<std::size_t>(topology.size)),
      exposed_(*connections_.arena) {
  if (topology.rank == kCoordinator) {
    const Thresholds thresholds = backend_.first_thresholds();
    control::SettingsEntry entry{settings.fusion_threshold, settings.fusion_small, {}};
    entry.limits = {thresholds.inlined, thresholds.staged};
    entry.ordered = backend_.is_ordered();
    coordinator_.emplace(group_, entry, settings.replay ? backend_.layout() : nullptr);
  }
}

Engine::~Engine() {
  close_heap();
  // No request was ended: their callers' memory may be gone. What is lent is of all groups; one never used leaves it.
  if (connections_.mailbox && state_ != State::failed && counters_.requests.load(std::memory_order_relaxed) > 0) {
    connections_.mailbox->drop_lent();
  }
}

// ---- One step

bool Engine::step() {
  const Nanoseconds now = clock_.now();
  transport::Mailbox* const mailbox = connections_.mailbox.get();
  bool moved = mailbox != nullptr && receive_news();
  if (state_ != State::working || loss_.any()) {
    return step_failing(now) || moved;
  }
  if (mailbox != nullptr && !mailbox->status()) {
    fail(mailbox->status());
    return true;
  }
  moved |= replay_.advance() != Progress::idle;
  moved |= take_submissions(now);
  moved |= cancel_due(now);
  check_time(now);
  moved |= exchange_messages(now);
  moved |= apply_outcome(now);
  moved |= pairs_.advance(now);
  if (!moved) {
    moved |= look_who_is_gone();
    moved |= look_at_pairs();
  }
  if (state_ != State::working || check_answers(now)) {
    return true;
  }
  peers_gave_up_ |= executor_.running() != nullptr && peers_.has_any_given_up();
  if (!peers_gave_up_ && executor_.advance(now) != Progress::idle) {
    moved = true;
    if (!executor_.failure()) {
      fail_to_launch();
      return true;
    }
  }
  if (follow_who_gave_up(now)) {
    return true;
  }
  if (!moved && give_up_if_held_up(now)) {
    return true;
  }
  note_left();
  control_.flush();  // what finds no room goes out later: the peer rings when it has made some
  return moved;
}

/// What has come of peers' words, and whose links have ended behind their last.
bool Engine::receive_news() {
  const bool moved = peers_.receive();
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (peer != peers_.self() && !loss_.is_gone(peer) && connections_.mailbox->has_ended(peer)) {
      loss_.notice(peer);
    }
  }
  return moved;
}

bool Engine::poll() {
  if (connections_.mailbox) {
    return step();  // what peers publish comes the same way as all else
  }
  if (state_ != State::working || loss_.any() || replay_.advance_buckets() == Progress::idle) {
    return false;
  }
  const bool any_completed = apply_outcome(0);
  return follow_who_gave_up(0) || any_completed;
}

/// A collective is under way and will not end: a rank that takes part has gone, or has not moved for too long.
bool Engine::give_up_if_held_up(Nanoseconds now) {
  if (const std::vector<int> gone = departed(); !gone.empty()) {
    start_failing(now, gone, true);
    return true;
  }
  const std::optional<std::vector<int>> stuck = replay_.stuck(now);
  if (!stuck && (executor_.is_idle() || now < executor_.deadline())) {
    return false;
  }
  const std::vector<int> late = held_up_by();
  start_failing(now, late.empty() && stuck ? *stuck : late, false);
  return true;
}

bool Engine::take_submissions(Nanoseconds now) {
  if (!submissions_.any()) {
    return false;
  }
  Submissions::Taken taken = submissions_.take();
  for (const TicketPtr& ticket : taken.tickets) {
    const OpKind kind = ticket->request().kind;
    if (observer_ != nullptr && (kind == OpKind::join || is_pairwise(kind))) {
      observer_->agreed(ticket->request(), now);
    }
    if (kind == OpKind::join) {
      take_join(ticket);
    } else if (is_pairwise(kind)) {
      pairs_.submit(ticket, now);
    } else {
      replay_.submit(ticket, now);
      submissions_.is_known(*ticket);
    }
  }
  for (control::RefusedMessage& each : taken.refused) {
    replay_.refused(each.name);
    send_to_coordinator(std::move(each), kNever, now);
  }
  if (taken.proposed && coordinator_) {
    coordinator_->on_table(*taken.proposed);
  }
  return !taken.tickets.empty() || !taken.refused.empty() || taken.proposed;
}

bool Engine::exchange_messages(Nanoseconds now) {
  bool moved = false;
  for (int i = 0; i < kMessagesPerStep; ++i) {
    int from = 0;
    control::Envelope envelope;
    const Result<bool> received = control_.receive(from, envelope);
    Status status = received.status();
    if (received && !received.value()) {
      // Nothing is left to read: what has become ready by now is one batch, fused together. Its own copy of the log
      // comes back by receive().
      if (!publish_log()) {
        break;
      }
      moved = true;
      continue;
    }
    if (received) {
      status = handle(from, envelope.message, now);
    }
    moved = true;
    if (!status) {
      // Below this the members go by their numbers in the group.
      const int member = status.failed_rank();
      fail(member < 0 ? status : status.with_rank(rank_of(member)));
      break;
    }
  }
  return moved;
}

template <typename Tell>
Status Engine::with_coordinator(int from, const Tell& tell) {
  if (!coordinator_) {
    return Status::error(Code::internal,
                         "rank " + std::to_string(rank_of(from)) + " took this rank for the coordinator");
  }
  if constexpr (std::is_void_v<decltype(tell(from))>) {
    tell(from);
    return {};
  } else {
    return tell(from);
  }
}

Status Engine::handle(int from, control::Message& message, Nanoseconds now) {
  if (auto* request = std::get_if<control::RequestMessage>(&message)) {
    return with_coordinator(from, [&](int member) {
      if (observer_ != nullptr) {
        observer_->ready(group_.id, request->name, request->descriptor, rank_of(member), now);
      }
      return coordinator_->on_request(member, std::move(*request), now);
    });
  }
  if (const auto* join = std::get_if<control::JoinMessage>(&message)) {
    return with_coordinator(from, [&](int member) { return coordinator_->on_join(member, *join); });
  }
  if (const auto* leave = std::get_if<control::LeaveMessage>(&message)) {
    if (coordinator_) {
      coordinator_->on_leave(from, leave->final);
    }
    return {};
  }
  if (const auto* end = std::get_if<control::EndMessage>(&message)) {
    return with_coordinator(from, [&](int member) { return coordinator_->on_end(member, *end); });
  }
  if (const auto* prepared = std::get_if<control::PreparedMessage>(&message)) {
    return with_coordinator(from, [&](int member) { return coordinator_->on_prepared(member, *prepared); });
  }
  if (const auto* refused = std::get_if<control::RefusedMessage>(&message)) {
    return with_coordinator(from, [&](int member) { coordinator_->on_refused(member, *refused); });
  }
  if (const auto* cancel = std::get_if<control::CancelMessage>(&message)) {
    return with_coordinator(from, [&](int member) { coordinator_->on_cancel(member, *cancel); });
  }
  if (const auto* full = std::get_if<control::FullMessage>(&message)) {
    return with_coordinator(from, [&](int member) { return coordinator_->on_full(member, *full); });
  }
  if (const auto* frozen = std::get_if<control::FrozenMessage>(&message)) {
    return with_coordinator(from, [&](int) { coordinator_->on_frozen(*frozen); });
  }
  if (const auto* freed = std::get_if<control::FreeMessage>(&message)) {
    return with_coordinator(from, [&](int member) { return coordinator_->on_free(member, freed->bucket); });
  }
  if (auto* offer = std::get_if<control::OfferMessage>(&message)) {
    return pairs_.read(from, std::move(*offer), now);
  }
  if (const auto* accept = std::get_if<control::AcceptMessage>(&message)) {
    return pairs_.read(from, *accept, now);
  }
  if (auto* piece = std::get_if<control::PieceMessage>(&message)) {
    return pairs_.read(from, std::move(*piece), now);
  }
  if (const auto* taken = std::get_if<control::TakenMessage>(&message)) {
    return pairs_.read(from, *taken, now);
  }
  if (const auto* give_up = std::get_if<control::GiveUpMessage>(&message)) {
    return pairs_.read(from, *give_up, now);
  }
  replay_.read(std::move(message));
  apply_outcome(now);
  return {};
}

bool Engine::publish_log() {
  if (!coordinator_) {
    return false;
  }
  const std::vector<control::Message> entries = coordinator_->take_log();
  for (const control::Message& entry : entries) {
    for (int member = 0; member < group_.size(); ++member) {
      control_.send(member, {group_.id, entry});
    }
  }
  counters_.control_messages.store(control_.sent(), std::memory_order_relaxed);
  return !entries.empty();
}

/// What agreement has left to do.
bool Engine::apply_outcome(Nanoseconds now) {
  const bool any_completed = finish_completed();
  Replay::Outcome outcome;
  if (!replay_.take(outcome)) {
    return any_completed;
  }
  if (outcome.settings) {
    plan_settings_ = *outcome.settings;
  }
  for (auto& [name, status] : outcome.failed) {
    if (const TicketPtr ticket = pending_.find(name)) {
      if (status.code() == Code::timed_out) {
        let_down_at_.store(counters_.requests.load(std::memory_order_relaxed), std::memory_order_relaxed);
      }
      finish(ticket, std::move(status));
    }
  }
  for (auto& [message, deadline] : outcome.messages) {
    send_to_coordinator(std::move(message), deadline, now == 0 ? clock_.now() : now);
  }
  if (!replay_.closed()) {
    submissions_.close_to_collectives(replay_.closed());
    finish_join(replay_.closed());
  }
  if (outcome.joined) {
    submissions_.restart_calls_at(outcome.joined->restarts);
    finish_join({}, rank_of(outcome.joined->last));
  }
  Status status = outcome.bug ? Status::error(Code::internal, *outcome.bug) : Status();
  for (const Replay::Answer& answer : outcome.agreed) {
    if (const auto* table = std::get_if<Thresholds>(&answer)) {
      use_table(*table);
    } else if (const auto* launch = std::get_if<Replay::Launch>(&answer)) {
      executor_.enqueue_launch(launch->bucket);
    } else if (status) {
      status = plan(std::get<std::vector<control::ExecEntry::Item>>(answer));
    }
  }
  if (!status) {
    fail(status);
  }
  return true;
}

Thresholds Engine::thresholds() const {
  std::lock_guard lock(table_mutex_);
  return table_ ? *table_ : backend_.first_thresholds();
}

void Engine::use_table(const Thresholds& thresholds) {
  executor_.set_table(thresholds);
  std::lock_guard lock(table_mutex_);
  table_ = thresholds;
}

void Engine::send_to_coordinator(control::Message message, Nanoseconds deadline, Nanoseconds now) {
  if (auto* request = std::get_if<control::RequestMessage>(&message)) {
    if (deadline != kNever) {
      const Nanoseconds whole = std::exchange(request->timeout, std::max<Nanoseconds>(0, deadline - now));
      request->waited = whole == kNever ? 0 : std::max<Nanoseconds>(0, whole - request->timeout);
    }
    if (observer_ != nullptr) {
      observer_->requested(group_.id, request->name, request->descriptor, now);
    }
  }
  control_.send(kCoordinator, {group_.id, std::move(message)});
  counters_.control_messages.store(control_.sent(), std::memory_order_relaxed);
}

/// Of what all are about to do; a stand-in where this rank has joined. Then its name may still be in use here for
/// something else: a recv, say, or a request that is done and that nobody has waited for yet.
TicketPtr Engine::ticket_of(const control::ExecEntry::Item& item) const {
  if (item.is_own) {
    return pending_.find(item.name);
  }
  return item.descriptor ? make_stand_in(item.name, *item.descriptor, group_.id) : nullptr;
}

Status Engine::plan(const std::vector<control::ExecEntry::Item>& items) {
  const Nanoseconds now = observer_ != nullptr ? clock_.now() : 0;
  if (observer_ != nullptr) {
    observer_->batch(group_.id, now);
  }
  std::vector<TicketPtr> tickets;
  for (const control::ExecEntry::Item& item : items) {
    TicketPtr ticket = ticket_of(item);
    if (!ticket) {
      return Status::error(Code::internal, "agreed on '" + item.name + "', which nobody here holds");
    }
    if (!item.rows.empty()) {
      RONDE_RETURN_IF_ERROR(
          ticket->make_outputs(item.rows, static_cast<std::size_t>(topology_.rank), group_.ranks.size()));
    }
    if (observer_ != nullptr && !ticket->is_stand_in()) {
      observer_->agreed(ticket->request(), now);
    }
    tickets.push_back(std::move(ticket));
  }
  for (PlanRun& run : make_plan_runs(items, tickets, plan_settings_, group_)) {
    if (run.plan.members.size() > 1) {
      counters_.fused_tensors.fetch_add(run.plan.members.size(), std::memory_order_relaxed);
    }
    executor_.enqueue(std::move(run));
  }
  return {};
}

// ---- Completion

/// Others may have begun the plan, and what they are at has no end but the group's: this rank's word that it has gone
/// tells them at once. Its own calls say why.
void Engine::fail_to_launch() {
  const Status why = executor_.failure();
  const std::vector<TicketPtr> owners = executor_.failed().owners;
  const Status others =
      Status::error(why.code(), "this rank could not begin '" + owners.front()->name() + "' (" + why.message() +
                                    "); this group of ranks is unusable until shutdown and init");
  log(LogLevel::error, rank_of(topology_.rank), others.message());
  fail_everything(
      [&](const Ticket& ticket) {
        const bool is_owner =
            std::any_of(owners.begin(), owners.end(), [&](const TicketPtr& owner) { return owner.get() == &ticket; });
        return is_owner ? why.with_context("'" + ticket.name() + "' could not be begun") : others;
      },
      others);
  control_.send(kCoordinator, {group_.id, control::LeaveMessage{true}});
  serve_nobody();
}

void Engine::plan_started(const PlanRun& run) {
  if (observer_ == nullptr) {
    return;
  }
  for (const TicketPtr& ticket : run.owners) {
    if (!ticket->is_stand_in()) {
      observer_->started(ticket->request(), run.plan, clock_.now());
    }
  }
}

void Engine::plan_finished(const PlanRun& run, const Status& status) {
  peers_gave_up_ |= peers_.has_any_given_up();
  if (peers_gave_up_ && status) {
    abandoned_.push_back(run);  // what was read of such a peer may be another step's, or anything
    return;
  }
  counters_.plans.fetch_add(1, std::memory_order_relaxed);
  if (run.plan.kind == OpKind::allreduce) {
    counters_.bytes_reduced.store(counters_.bytes_reduced.load(std::memory_order_relaxed) + run.plan.bytes(),
                                  std::memory_order_relaxed);
    if (run.plan.is_shared()) {
      counters_.direct_bytes.fetch_add(run.plan.bytes(), std::memory_order_relaxed);
    }
  }
  for (const TicketPtr& ticket : run.owners) {
    if (observer_ != nullptr && !ticket->is_stand_in()) {
      observer_->stopped(ticket->request(), clock_.now());
    }
    if (ticket->plan_finished(status)) {
      replay_.executed(ticket->name());
      finish(ticket, ticket->plans_status().with_tensor(ticket->name()));
    }
  }
}

/// Who waits is told once for many.
bool Engine::finish_completed() {
  std::vector<TicketPtr>& completed = replay_.completed();
  if (completed.empty()) {
    return false;
  }
  // Whatever happens on the way (a callback may find no memory to be queued in), none is ended twice: a caller may have
  // submitted it again. Those not reached are ended by the next call.
  struct Telling {
    Engine& engine;
    std::vector<TicketPtr>& completed;
    std::size_t ended = 0;
    std::uint64_t bytes = 0;
    ~Telling() {
      engine.counters_.bytes_reduced.store(engine.counters_.bytes_reduced.load(std::memory_order_relaxed) + bytes,
                                           std::memory_order_relaxed);
      if (ended == completed.size()) {
        completed.clear();
      } else {
        completed.erase(completed.begin(), completed.begin() + static_cast<std::ptrdiff_t>(ended));
      }
      if (engine.on_finished_) {
        engine.on_finished_();
      }
    }
  } telling{*this, completed};
  while (telling.ended < completed.size()) {
    const TicketPtr& ticket = completed[telling.ended++];
    telling.bytes += ticket->input_bytes();
    end(ticket, {});
  }
  return true;
}

void Engine::take_join(const TicketPtr& ticket) {
  if (join_) {
    finish(ticket, Status::error(Code::duplicate_name, "this rank has joined already and waits for the others"));
    return;
  }
  join_ = ticket;
  replay_.join(ticket->request().call_number);
}

/// `last`: the rank that was the last to join.
void Engine::finish_join(Status status, int last) {
  if (const TicketPtr ticket = std::exchange(join_, nullptr)) {
    if (status) {
      ticket->give(last);
    }
    finish(ticket, std::move(status));
  }
}

void Engine::end(const TicketPtr& ticket, Status status) {
  if (ticket->is_stand_in()) {
    ticket->finish(std::move(status));
    return;  // nobody here has asked for it
  }
  finished_.store(finished_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!ticket->on_done()) {
    ticket->finish(std::move(status));
    return;
  }
  // Once it is done its caller may submit it again: what the callback is told is taken before that.
  std::shared_ptr<void> owner = ticket->take_owner();
  Status copy = status;
  ticket->finish(std::move(status));
  if (on_callback_) {
    on_callback_(ticket, std::move(copy), std::move(owner));
  }
}

void Engine::finish(const TicketPtr& ticket, Status status) {
  if (ticket->is_done()) {
    return;
  }
  if (observer_ != nullptr) {
    observer_->finished(ticket->request(), status, clock_.now());
  }
  end(ticket, std::move(status));
  if (on_finished_) {
    on_finished_();
  }
}

// ---- Time

void Engine::check_time(Nanoseconds now) {
  if (coordinator_ && coordinator_->wants_break()) {
    replay_.end_epoch();
  }
  replay_.check_time(now, settings_.stall);
  pairs_.check_time(now);
  if (coordinator_) {
    if (now >= coordinator_->next_deadline()) {
      coordinator_->on_time(now);
    }
    report_stalls(now);
  }
}

void Engine::report_stalls(Nanoseconds now) {
  if (!coordinator_->is_waiting() || !stall_.is_due(now) || !log_enabled(LogLevel::warning)) {
    return;
  }
  for (const std::string& line : stall_.report(coordinator_->waiting(), now)) {
    log(LogLevel::warning, rank_of(topology_.rank), line);
  }
}

bool Engine::may_rest() const {
  const bool is_settled = state_ == State::failed || (state_ == State::working && !loss_.any());
  return is_settled && leaving() != Leaving::waiting && !has_outstanding() && !has_input() && !only_replays() &&
         executor_.is_idle() && !pairs_.is_moving();
}

Nanoseconds Engine::next_timer() const {
  if (state_ == State::failed) {
    return kNever;
  }
  if (state_ == State::failing) {
    return failing_since_ + settings_.quiet_timeout;
  }
  Nanoseconds next =
      std::min({executor_.deadline(), replay_.next_check(), pairs_.next_deadline(), cancellations_.next()});
  if (coordinator_) {
    const bool reports = coordinator_->is_waiting() && log_enabled(LogLevel::warning);
    next = std::min({next, coordinator_->next_deadline(), reports ? stall_.next() : kNever});
  } else if (replay_.is_waiting()) {
    next = std::min(next, next_answer_check_);
  }
  return next;
}

}  // namespace ronde::engine
