// How an engine comes to its end: by leaving the job, by an error of its own, by the death of a peer.
#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "engine/engine.h"

namespace ronde::engine {

namespace {

/// Beyond a request's own limit, which the coordinator minds: then the coordinator itself has stopped.
constexpr Nanoseconds kAnswerGrace = 5 * kSecond;

}  // namespace

// ---- Leaving

void Engine::begin_leave() {
  if (leave_begun_) {
    return;
  }
  leave_begun_ = true;
  submissions_.close(Status::error(Code::not_initialized, "the engine has shut down; call init again"));
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
  const bool unreachable = !coordinator_ && (has_gone(kCoordinator) || loss_.is_gone(kCoordinator));
  if (state_ == State::failing || !executor_.is_idle() || pairs_.is_moving()) {
    return Leaving::waiting;
  }
  return replay_.all_left() || unreachable ? Leaving::over : Leaving::waiting;
}

void Engine::note_left() {
  if (!leave_noted_ && replay_.self_left() && executor_.is_idle() && !pairs_.is_moving()) {
    leave_noted_ = true;
    peers_.say_departed(transport::Departure::in_order);
  }
}

/// Of the ranks that what is agreed and under way waits for, those that have gone and will never do their part.
std::vector<int> Engine::departed() const {
  // Who has gone is looked up before what is lacking: a rank does its part before it says that it goes. The other way
  // round a rank that does both between the two looks would seem to owe what it has just given.
  std::vector<int> gone;
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (peer != peers_.self() && has_gone(peer)) {
      gone.push_back(peer);
    }
  }
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
  std::vector<int> late = executor_.waiting_for();
  return late.empty() ? replay_.draining_for() : late;
}

/// It has said its last word, or has died after it had left: what it had not sent by then, nobody will send.
bool Engine::has_gone(int peer) const {
  const transport::Departure departure = peers_.departure(peer);
  return departure == transport::Departure::final ||
         (departure == transport::Departure::in_order && loss_.is_gone(peer));
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
  close_heap();
  control_.flush();
  state_ = State::failed;
  peers_.say_departed(transport::Departure::final);
  peers_.wake_others();
}

/// A peer that is stopped, not dead, may still read what callers have there: a group's are not given out again.
void Engine::close_heap() {
  if (owns_heap_) {
    shared_heap_->close();
  } else if (!everyone_left()) {
    shared_heap_->distrust();
  }
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

Status Engine::left_job(int peer) const {
  const int rank = rank_of(peer);
  return Status::error(Code::peer_left, "rank " + std::to_string(rank) + " has left the job (it shut down or exited)")
      .with_rank(rank);
}

/// Called when there was nothing to read. A rank that is gone may not have found room for its last message: its word in
/// shared memory says as much. What it did say has been read by now. True if it should be called again.
bool Engine::look_who_is_gone() {
  if (coordinator_) {
    for (int peer = 0; peer < peers_.size(); ++peer) {
      if (peer != peers_.self() && has_gone(peer)) {
        coordinator_->on_leave(peer, true);
      }
    }
    return false;
  }
  if (!has_gone(kCoordinator) || !replay_.closed() || replay_.all_left()) {
    return false;
  }
  if (replay_.is_ordered() && !std::exchange(coordinator_is_gone_, true)) {
    return true;  // as below: the rest of the log is read first
  }
  replay_.end_log();
  // What is under way is finished or given up first: nothing may be told while a bucket or plan still works on it. If
  // it cannot end without the coordinator, departed() sees that.
  if (!executor_.is_idle() || !replay_.is_out()) {
    return false;
  }
  if (!std::exchange(coordinator_is_gone_, true)) {
    return true;  // its last messages were stored before that word: the next step finds them if there are any
  }
  const Status reason = left_job(kCoordinator);
  submissions_.close_to_collectives(reason);
  for (const TicketPtr& ticket : close_agreement(reason)) {
    finish(ticket, reason.with_tensor(ticket->name()).with_context("'" + ticket->name() + "'"));
  }
  return false;
}

/// The same for what passes between two ranks, which a third that leaves does not end: true if it should be called
/// again, when all that a peer which has gone did say has been read.
bool Engine::look_at_pairs() {
  bool again = false;
  for (int peer = 0; peer < peers_.size() && !pairs_.is_empty(); ++peer) {
    if (peer == peers_.self() || (pairs_.has_parted_with(peer) && !pairs_.has_business_with(peer))) {
      continue;
    }
    if (replay_.has_left(peer)) {
      pairs_.part_with(peer, left_job(peer));
    }
    if (!has_gone(peer)) {
      continue;
    }
    if (!pair_is_gone_[static_cast<std::size_t>(peer)]) {
      pair_is_gone_[static_cast<std::size_t>(peer)] = true;
      again = true;
      continue;
    }
    pairs_.end_with(peer, left_job(peer));
  }
  return again;
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
  fail(Status::error(Code::timed_out, "Timed out in '" + *name + "': " + peer_text(kCoordinator) +
                                          ", which coordinates the ranks, does not answer. Is it stopped?")
           .with_rank(rank_of(kCoordinator)));
  return true;
}

// ---- A caller that does not want the end

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

// ---- Losing a peer

std::string Engine::peer_text(int peer) const {
  const transport::PeerInfo& info = connections_.who[static_cast<std::size_t>(peer)];
  const bool is_linked = connections_.mailbox && peer != peers_.self();
  const std::string cause = is_linked ? connections_.mailbox->end_cause(peer) : "";
  return "rank " + std::to_string(rank_of(peer)) + " (host " + info.host + ", pid " + std::to_string(info.pid) +
         (cause.empty() ? ")" : "; " + cause + ")");
}

/// `late`: the ranks without which what is under way cannot end; `departed`: they have left. Empty when a rank died.
void Engine::start_failing(Nanoseconds now, const std::vector<int>& late, bool departed) {
  state_ = State::failing;
  failing_since_ = now;
  std::string late_text;
  for (int peer : late) {
    late_text += (late_text.empty() ? "" : ", ") + peer_text(peer);
  }
  abandon_plans();
  replay_.stop(loss_.lost());
  if (loss_.any()) {
    return;
  }
  // A peer agreed and then stopped, or left, in the middle: no common point is left to go on from.
  const Code code = departed ? Code::peer_left : Code::timed_out;
  const std::string what = (departed ? "the ranks did not finish '" : "Timed out while executing '");
  const int rank = late.empty() ? -1 : rank_of(late.front());
  fail_everything(
      [&](const Ticket& ticket) {
        return Status::error(code, what + ticket.name() + "': " + (late_text.empty() ? "a rank" : late_text) +
                                       (departed ? " has left in the middle of it"
                                                 : " agreed to it but did not do "
                                                   "its part") +
                                       "; this group of ranks is unusable until shutdown and init")
            .with_rank(rank);
      },
      Status::error(code, "an earlier request ended in the middle; shut down and init again").with_rank(rank));
  control_.send(kCoordinator, {group_.id, control::LeaveMessage{true}});
  serve_nobody();
}

bool Engine::step_failing(Nanoseconds now) {
  cancellations_.due(now);  // they end with all others
  if (state_ == State::failed) {
    const bool had_input = submissions_.any();
    if (had_input) {
      fail_everything([&](const Ticket& ticket) { return replay_.closed().with_tensor(ticket.name()); },
                      replay_.closed());
    }
    return had_input;
  }
  if (state_ == State::working) {
    start_failing(now, {}, false);
  }
  loss_.learn_from_peers();
  replay_.stop(loss_.lost());
  if (!loss_.are_all_quiet() && now < failing_since_ + settings_.quiet_timeout) {
    return false;
  }
  const std::vector<int> lost = loss_.lost();
  std::string who;
  for (int peer : lost) {
    who += (who.empty() ? "" : " and ") + peer_text(peer);
  }
  const Status later_ones =
      Status::error(Code::peer_lost, who + " died; this group of ranks is unusable until shutdown and init")
          .with_rank(rank_of(lost.front()));
  fail_everything(
      [&](const Ticket& ticket) {
        return Status::error(Code::peer_lost, who + " died while " + std::string(op_name(ticket.request().kind)) +
                                                  " '" + ticket.name() + "' was under way")
            .with_rank(rank_of(lost.front()));
      },
      later_ones, End::in_loss);
  state_ = State::failed;
  close_heap();
  return true;
}

/// Ends agreement; returns the tickets that were still in it.
std::vector<TicketPtr> Engine::close_agreement(const Status& reason, End end) {
  apply_outcome(clock_.now());  // what was over before this has its own end
  end == End::in_loss ? replay_.all_quiet(reason) : replay_.close(reason);
  Replay::Outcome outcome;
  replay_.take(outcome);
  std::vector<TicketPtr> tickets;
  for (const auto& [name, status] : outcome.failed) {
    if (TicketPtr ticket = pending_.find(name)) {
      tickets.push_back(std::move(ticket));
    }
  }
  return tickets;
}

void Engine::fail_everything(const std::function<Status(const Ticket&)>& reason, Status later_ones, End end) {
  submissions_.close(later_ones);
  abandon_plans();
  std::vector<TicketPtr> tickets = submissions_.take().tickets;
  for (const PlanRun& run : std::exchange(abandoned_, {})) {
    tickets.insert(tickets.end(), run.owners.begin(), run.owners.end());
  }
  for (TicketPtr& ticket : close_agreement(later_ones, end)) {
    tickets.push_back(std::move(ticket));
  }
  if (join_) {
    tickets.push_back(std::exchange(join_, nullptr));
  }
  for (TicketPtr& ticket : pairs_.abandon()) {
    tickets.push_back(std::move(ticket));
  }
  for (HeapSpan& span : replay_.exposed()) {
    exposed_.add(span);  // now that nothing more is published
  }
  if (connections_.mailbox) {
    connections_.mailbox->keep_lent();  // callers get their memory back next
  }
  if (end != End::in_order || !exposed_.is_empty()) {
    peers_.say_given_up();
  }
  take_memory_back();
  for (const TicketPtr& ticket : tickets) {
    finish(ticket, exposed_.with_memory_lost(reason(*ticket), *ticket).with_tensor(ticket->name()));
  }
}

// ---- What others may still be at work on

/// From now on this rank does nothing for them.
void Engine::abandon_plans() {
  const PlanRun* const running = executor_.running();
  if (running != nullptr && running->plan.is_shared()) {
    for (const PlanMember& member : running->plan.members) {
      const HeapPlace& own = member.places[static_cast<std::size_t>(peers_.self())];
      exposed_.add({static_cast<std::size_t>(own.output), member.output.bytes()});
    }
  }
  for (PlanRun& run : executor_.abandon()) {
    abandoned_.push_back(std::move(run));
  }
}

/// The peer may still be at work on what this group had under way.
bool Engine::may_touch(int peer) const {
  return peer != peers_.self() && !loss_.is_gone(peer) && !has_gone(peer) && !peers_.has_given_up(peer) &&
         !loss_.is_quiet(peer);
}

/// Requires: this rank touches nothing of the group's any more and has said so.
void Engine::take_memory_back() {
  bool any = false;
  for (int peer = 0; peer < peers_.size(); ++peer) {
    any |= may_touch(peer);
  }
  if (any) {
    exposed_.take_back([this](const std::byte* begin, std::size_t bytes) { return is_in_use(begin, bytes); });
  } else {
    exposed_.forget();
  }
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
  loss_.learn_from_peers();  // they may have done so because of a death
  if (loss_.any()) {
    step_failing(now);
  } else {
    std::vector<int> gone;
    for (int peer = 0; peer < peers_.size(); ++peer) {
      if (peer != peers_.self() && peers_.has_given_up(peer)) {
        gone.push_back(peer);
      }
    }
    start_failing(now, gone, true);
  }
  return true;
}

}  // namespace ronde::engine
