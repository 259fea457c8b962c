#include "engine/core/engine.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/log.h"
#include "engine/membership/ending_errors.h"

namespace ronde::engine {

namespace {

constexpr int kMessagesPerStep = 256;  ///< so that one step stays short
/// Beyond a request's own limit, which the coordinator minds: then the coordinator itself has stopped.
constexpr Nanoseconds kAnswerGrace = 5 * kSecond;

Group or_everyone(Group group, int size) {
  if (group.ranks.empty()) {
    group.ranks.resize(static_cast<std::size_t>(size));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
  }
  return group;
}

}  // namespace

Engine::Engine(Topology topology, Connections connections, Settings settings, const Clock& clock, Group group)
    : topology_(topology),
      settings_(settings),
      clock_(clock),
      connections_(std::move(connections)),
      peers_(*connections_.peers),
      backend_(*connections_.backend),
      group_(or_everyone(std::move(group), topology.size)),
      control_(connections_.agreement.get(), topology.rank, topology.size),
      deaths_(peers_),
      names_(group_, connections_),
      members_(peers_, deaths_),
      replay_(group_, backend_, peers_, deaths_, pending_, clock),
      submissions_(group_, rank_of(topology.rank), backend_, pending_, replay_, inbox_, counters_.requests),
      coordinator_(group_, settings.stall),
      completion_(clock, counters_),
      plans_({group_, backend_, peers_, pending_, replay_, completion_, counters_, clock}),
      table_(backend_),
      pairs_(group_, *connections_.memory, control_, peers_,
             [this](const TicketPtr& ticket, Status status) { completion_.finish(ticket, std::move(status)); }),
      unfinished_({inbox_, pending_, replay_, plans_, pairs_, completion_}, connections_, members_) {
  unfinished_.set_in_use([this](const std::byte* begin, std::size_t bytes) { return is_in_use(begin, bytes); });
  if (topology.rank == kCoordinator) {
    const Thresholds thresholds = backend_.first_thresholds();
    control::SettingsEntry entry{settings.fusion_threshold, settings.fusion_small, {}};
    entry.limits = {thresholds.inlined, thresholds.staged};
    entry.ordered = backend_.is_ordered();
    coordinator_.take(entry, settings.replay ? backend_.layout() : nullptr,
                      [this](const MemoryPlaces& places) { return backend_.may_reduce_at(places); });
  }
}

Engine::~Engine() {
  end_memory();
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
  if (state_ != State::working || deaths_.any()) {
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
    moved |= pairs_.look_who_is_gone(members_, [this](int peer) { return replay_.has_left(peer); });
  }
  if (state_ != State::working || check_answers(now)) {
    return true;
  }
  moved |= plans_.advance(now) != Progress::idle;
  if (!plans_.failure()) {
    fail_to_launch();
    return true;
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
    if (peer != peers_.self() && !deaths_.is_gone(peer) && connections_.mailbox->has_ended(peer)) {
      deaths_.notice(peer);
    }
  }
  return moved;
}

bool Engine::poll() {
  if (connections_.mailbox) {
    return step();  // what peers publish comes the same way as all else
  }
  if (state_ != State::working || deaths_.any() || replay_.advance_buckets() == Progress::idle) {
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
  if (!stuck && (plans_.is_idle() || now < plans_.deadline())) {
    return false;
  }
  const std::vector<int> late = held_up_by();
  start_failing(now, late.empty() && stuck ? *stuck : late, false);
  return true;
}

bool Engine::take_submissions(Nanoseconds now) {
  if (!inbox_.any()) {
    return false;
  }
  Inbox::Taken taken = inbox_.take();
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
      inbox_.is_known(*ticket);
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

Status Engine::handle(int from, control::Message& message, Nanoseconds now) {
  if (std::optional<Status> heard = coordinator_.read(from, message, now)) {
    return *std::move(heard);
  }
  if (std::optional<Status> read = pairs_.read(from, message, now)) {
    return *std::move(read);
  }
  replay_.read(std::move(message));
  apply_outcome(now);
  return {};
}

bool Engine::publish_log() {
  if (!coordinator_.publish(control_)) {
    return false;
  }
  counters_.control_messages.store(control_.sent(), std::memory_order_relaxed);
  return true;
}

/// What agreement has left to do.
bool Engine::apply_outcome(Nanoseconds now) {
  const bool any_completed = completion_.finish_all(replay_.completed());
  ReplayOutbox::Outcome outcome;
  if (!replay_.take(outcome)) {
    return any_completed;
  }
  if (outcome.settings) {
    plans_.use_settings(*outcome.settings);
  }
  for (auto& [name, status] : outcome.failed) {
    if (const TicketPtr ticket = pending_.find(name)) {
      if (status.code() == Code::timed_out) {
        completion_.note_let_down();
      }
      completion_.finish(ticket, std::move(status));
    }
  }
  for (auto& [message, deadline] : outcome.messages) {
    send_to_coordinator(std::move(message), deadline, now == 0 ? clock_.now() : now);
  }
  if (!replay_.closed()) {
    inbox_.close_to_collectives(replay_.closed());
    finish_join(replay_.closed());
  }
  if (outcome.joined) {
    submissions_.restart_calls_at(outcome.joined->restarts);
    finish_join({}, rank_of(outcome.joined->last));
  }
  Status status = outcome.bug ? Status::error(Code::internal, *outcome.bug) : Status();
  for (const ReplayOutbox::Answer& answer : outcome.agreed) {
    if (const auto* table = std::get_if<Thresholds>(&answer)) {
      plans_.use_table(*table);
      table_.set(*table);
    } else if (const auto* launch = std::get_if<ReplayOutbox::Launch>(&answer)) {
      plans_.add_launch(launch->bucket);
    } else if (status) {
      status = plans_.add(std::get<std::vector<control::ExecEntry::Item>>(answer));
    }
  }
  if (!status) {
    fail(status);
  }
  return true;
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

void Engine::take_join(const TicketPtr& ticket) {
  if (join_) {
    completion_.finish(ticket,
                       Status::error(Code::duplicate_name, "this rank has joined already and waits for the others"));
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
    completion_.finish(ticket, std::move(status));
  }
}

// ---- Time

void Engine::check_time(Nanoseconds now) {
  if (coordinator_ && coordinator_->wants_break()) {
    replay_.end_epoch();
  }
  replay_.check_time(now, settings_.stall);
  pairs_.check_time(now);
  coordinator_.check_time(now, rank_of(topology_.rank));
}

bool Engine::may_rest() const {
  const bool is_settled = state_ == State::failed || (state_ == State::working && !deaths_.any());
  return is_settled && leaving() != Leaving::waiting && !has_outstanding() && !has_input() && !replays() &&
         plans_.is_idle() && !pairs_.is_moving();
}

Nanoseconds Engine::next_timer() const {
  if (state_ == State::failed) {
    return kNever;
  }
  if (state_ == State::failing) {
    return failing_since_ + settings_.quiet_timeout;
  }
  Nanoseconds next = std::min({plans_.deadline(), replay_.next_check(), pairs_.next_deadline(), cancellations_.next()});
  next = std::min(next, coordinator_.next_timer());
  if (!coordinator_ && replay_.is_waiting()) {
    next = std::min(next, next_answer_check_);
  }
  return next;
}

/// The coordinator keeps the limits; this one is for a coordinator that is stopped itself.
bool Engine::check_answers(Nanoseconds now) {
  if (now < next_answer_check_ || coordinator_ || !has_outstanding()) {
    return false;
  }
  next_answer_check_ = now + kSecond;
  const std::optional<std::string> name = replay_.overdue(now, kAnswerGrace);
  if (!name) {
    return false;
  }
  fail(coordinator_is_silent(names_, kCoordinator, *name));
  return true;
}

/// What waits in a bucket goes back to the coordinator, which is told. What all have agreed to is finished.
bool Engine::cancel_due(Nanoseconds now) {
  const std::vector<TicketPtr> due = cancellations_.due(now);
  for (const TicketPtr& ticket : due) {
    const OpKind kind = ticket->request().kind;
    if (is_pairwise(kind)) {
      pairs_.cancel(*ticket);
    } else if (kind != OpKind::join) {
      replay_.cancel();
      send_to_coordinator(control::CancelMessage{ticket->name()}, kNever, now);
    }
  }
  return !due.empty();
}

// ---- Members that have gone

/// Called when there was nothing to read. A rank that is gone may not have found room for its last message: its word in
/// shared memory says as much. What it did say has been read by now. True if it should be called again.
bool Engine::look_who_is_gone() {
  if (coordinator_) {
    for (int peer : members_.gone()) {
      coordinator_->on_leave(peer, true);
    }
    return coordinator_->has_logged();  // the next step sends it
  }
  if (!members_.has_gone(kCoordinator) || !replay_.closed() || replay_.all_left()) {
    return false;
  }
  if (replay_.is_ordered() && !std::exchange(coordinator_is_gone_, true)) {
    return true;  // as below: the rest of the log is read first
  }
  replay_.end_log();
  // What is under way is finished or given up first: nothing may be told while a bucket or plan still works on it. If
  // it cannot end without the coordinator, departed() sees that.
  if (!plans_.is_idle() || !replay_.is_out()) {
    return false;
  }
  if (!std::exchange(coordinator_is_gone_, true)) {
    return true;  // its last messages were stored before that word: the next step finds them if there are any
  }
  const Status reason = rank_has_left(rank_of(kCoordinator));
  inbox_.close_to_collectives(reason);
  apply_outcome(clock_.now());  // what was over before this has its own end
  for (const TicketPtr& ticket : unfinished_.close_agreement(reason)) {
    completion_.finish(ticket, reason.with_tensor(ticket->name()).with_context("'" + ticket->name() + "'"));
  }
  return false;
}

// ---- Leaving

void Engine::begin_leave() {
  if (leave_begun_) {
    return;
  }
  leave_begun_ = true;
  inbox_.close(Status::error(Code::not_initialized, "the engine has shut down; call init again"));
  take_submissions(clock_.now());
  if (state_ == State::working) {
    pairs_.close(Status::error(Code::cancelled, "this rank shut down while the request was pending"));
    replay_.leave();
    apply_outcome(clock_.now());
  }
}

Leaving Engine::leaving() const {
  if (!leave_begun_) {
    return Leaving::no;
  }
  if (state_ == State::failed) {
    return Leaving::over;
  }
  const bool unreachable = !coordinator_ && (members_.has_gone(kCoordinator) || deaths_.is_gone(kCoordinator));
  if (state_ == State::failing || !plans_.is_idle() || pairs_.is_moving()) {
    return Leaving::waiting;
  }
  return replay_.all_left() || unreachable ? Leaving::over : Leaving::waiting;
}

void Engine::note_left() {
  if (!leave_noted_ && replay_.self_left() && plans_.is_idle() && !pairs_.is_moving()) {
    leave_noted_ = true;
    peers_.say_departed(transport::Departure::in_order);
  }
}

/// Of the ranks that what is agreed and under way waits for, those that have gone and will never do their part.
std::vector<int> Engine::departed() const {
  // Who has gone is looked up before what is lacking: a rank does its part before it says that it goes. The other way
  // round a rank that does both between the two looks would seem to owe what it has just given.
  const std::vector<int> gone = members_.gone();
  if (gone.empty()) {
    return {};
  }
  std::vector<int> departed;
  for (int peer : held_up_by()) {
    if (std::find(gone.begin(), gone.end(), peer) != gone.end()) {
      departed.push_back(peer);
    }
  }
  return departed;
}

/// The ranks that what is agreed and under way waits for.
std::vector<int> Engine::held_up_by() const {
  std::vector<int> late = plans_.waiting_for();
  return late.empty() ? replay_.draining_for() : late;
}

void Engine::finish_leave() {
  const Status reason = Status::error(Code::cancelled, "this rank shut down while the request was pending");
  if (state_ == State::working && !replay_.self_left()) {
    control_.send(kCoordinator, {group_.id, control::LeaveMessage{true}});
    exchange_messages(clock_.now());  // this rank may be the coordinator
  }
  fail_everything([&](const Ticket& ticket) { return reason.with_tensor(ticket.name()); }, reason, End::in_order);
  serve_nobody();
}

void Engine::serve_nobody() {
  end_memory();
  control_.flush();
  state_ = State::failed;
  peers_.say_departed(transport::Departure::final);
  peers_.wake_others();
}

void Engine::fail(const Status& status) {
  if (state_ == State::failed) {
    return;
  }
  log(LogLevel::error, rank_of(topology_.rank), status.message());
  fail_everything([&](const Ticket&) { return status; }, status);
  control_.send(kCoordinator, {group_.id, control::LeaveMessage{true}});
  serve_nobody();
}

// ---- Failing

/// Others may have begun the plan, and what they are at has no end but the group's: this rank's word that it has gone
/// tells them at once. Its own calls say why.
void Engine::fail_to_launch() {
  const LaunchErrors errors = could_not_begin(plans_.failure(), plans_.failed().owners);
  log(LogLevel::error, rank_of(topology_.rank), errors.others.message());
  fail_everything([&](const Ticket& ticket) { return errors.of(ticket); }, errors.others);
  control_.send(kCoordinator, {group_.id, control::LeaveMessage{true}});
  serve_nobody();
}

/// `late`: the ranks without which what is under way cannot end; `departed`: they have left. Empty when a rank died.
void Engine::start_failing(Nanoseconds now, const std::vector<int>& late, bool departed) {
  state_ = State::failing;
  failing_since_ = now;
  plans_.abandon();
  replay_.stop(deaths_.lost());
  if (deaths_.any()) {
    return;
  }
  const EndingErrors errors = ended_in_the_middle(names_, late, departed);
  fail_everything([&](const Ticket& ticket) { return errors.of(ticket); }, errors.of_later_ones());
  control_.send(kCoordinator, {group_.id, control::LeaveMessage{true}});
  serve_nobody();
}

bool Engine::step_failing(Nanoseconds now) {
  cancellations_.due(now);  // they end with all others
  if (state_ == State::failed) {
    const bool had_input = inbox_.any();
    if (had_input) {
      fail_everything([&](const Ticket& ticket) { return replay_.closed().with_tensor(ticket.name()); },
                      replay_.closed());
    }
    return had_input;
  }
  if (state_ == State::working) {
    start_failing(now, {}, false);
  }
  deaths_.learn_from_peers();
  replay_.stop(deaths_.lost());
  if (!deaths_.are_all_quiet() && now < failing_since_ + settings_.quiet_timeout) {
    return false;
  }
  const EndingErrors errors = ended_by_death(names_, deaths_.lost());
  fail_everything([&](const Ticket& ticket) { return errors.of(ticket); }, errors.of_later_ones(), End::in_loss);
  state_ = State::failed;
  end_memory();
  return true;
}

void Engine::fail_everything(const UnfinishedWork::Reason& reason, const Status& later_ones, End end) {
  apply_outcome(clock_.now());  // what was over before this has its own end
  unfinished_.end_all(reason, later_ones, end, std::exchange(join_, nullptr));
}

/// By another engine of this process, which has been told to leave that memory.
bool Engine::is_in_use(const std::byte* begin, std::size_t bytes) const {
  bool any = false;
  if (visit_neighbours_) {
    visit_neighbours_([&](Engine& other) {
      other.replay_.leave_withdrawn_places();
      any |= any_in_pages_of(other.pending_, begin, bytes);
    });
  }
  return any;
}

/// A peer has given up what this rank has its part in, so there is no result. True if this rank gives up too.
bool Engine::give_up_too(Nanoseconds now) {
  now = now == 0 ? clock_.now() : now;
  deaths_.learn_from_peers();  // they may have done so because of a death
  if (deaths_.any()) {
    step_failing(now);
  } else {
    start_failing(now, members_.given_up(), true);
  }
  return true;
}

}  // namespace ronde::engine
