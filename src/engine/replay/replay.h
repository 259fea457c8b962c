// Replay: this rank's side of agreement and of its buckets: tells the state machine of agreement/member.h what happens,
// which has done what it wants by replay_actions.h. What is left for the engine to do is in an outbox
// (replay_outbox.h).
//
// Two locks. The gate, held for moments, guards the member and the places of tickets: submitting threads go through it
// straight into their bucket. The progress lock guards the rest, as everywhere in the engine. Lock order: progress
// lock, gate, pending table.
//
// Copy-in happens inside the gate. docs/agreement.md allows it before the gate too, with a second copy where a new
// epoch has overtaken the first. Inside there is no second copy, and the gate is held for a small tensor's copy at
// most: larger private tensors are in ordered buckets and shared ones in direct buckets, which read tensors where they
// lie.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agreement/member.h"
#include "backend/backend.h"
#include "base/spin_lock.h"
#include "engine/membership/deaths.h"
#include "engine/replay/replay_actions.h"
#include "engine/replay/replay_state.h"
#include "engine/requests/pending_table.h"
#include "engine/requests/ticket.h"
#include "observe/observer.h"
#include "transport/peers.h"
#include "types/operation.h"

namespace ronde::engine {

class Replay {
 public:
  Replay(Group group, backend::Backend& backend, transport::Peers& peers, Deaths& deaths, const PendingTable& pending,
         const Clock& clock);

  // ---- Any thread.

  /// Puts the ticket into its bucket if its name is replayed just now; false: it must be handed in to the engine.
  /// Requires: the name is taken by this ticket.
  bool place(const TicketPtr& ticket);
  /// The same for the first `placed` of many; also how many it were when memory ran out. Takes the gate now and then.
  void place(std::span<const TicketPtr> tickets, std::size_t& placed);
  /// Whether the engine should be driven: a bucket was published, something waits to be sent or told, or the first
  /// request has come after a quiet time, from when on clocks must be watched.
  bool has_work() const { return state_.has_work(); }
  /// Somebody waits for this ticket, so what it waits for is looked at closely.
  void want(Ticket& ticket) {
    ticket.want();
    if (!ticket.is_alone() && runs().replays() && state_.watch.look_soon()) {
      state_.outbox.call();
    }
  }

  // ---- Under the progress lock.

  void submit(const TicketPtr& ticket, Nanoseconds now);
  void read(control::Message entry);
  void executed(const std::string& name);
  /// This rank will not make the unnamed call of this name.
  void refused(const std::string& name);
  /// This rank submits nothing more until the outcome tells who was the last to join. Once in a row.
  /// `last_call`: the number of this rank's last unnamed call.
  void join(std::uint64_t last_call);
  void leave();
  /// Every request ends with this; they are in the outcome's `failed`.
  void close(const Status& reason);
  /// A request is to end that may wait in a bucket: breaks the epoch, if one runs here.
  void cancel();
  /// Breaks the epoch, if one runs here: buckets that are not in use can go then.
  void end_epoch();
  /// These have died: nothing of the buckets is touched any more, and the peers are told so. Again when there are more.
  void stop(const std::vector<int>& lost);
  /// After stop(): every survivor is quiet about the lost, or has had its time. Every request ends with this.
  void all_quiet(const Status& reason);
  /// A peer gave up before this rank had all that it did its part for: the results are worth nothing, and nothing moves
  /// any more.
  bool peers_gave_up() const { return peers_gave_up_; }
  /// What of this rank's memory peers may store into because of what is published.
  std::vector<MemorySpan> exposed() const;
  /// What agreement is told of a request: its descriptor, and where its tensor lies if peers reach it there. Any
  /// thread.
  Descriptor described(const Request& request) const;
  /// Breaks if something is replayed in memory that has been withdrawn.
  void leave_withdrawn_places();
  /// Null: nobody.
  void observe(observe::Observer* observer);
  /// Moves buckets that are published, looks at the peers' break words.
  Progress advance();
  /// Moves buckets only; for a waiter that looks again and again.
  Progress advance_buckets();
  /// In an ordered group, of what ReplayOutbox::Outcome::agreed says: launches the instance that is under way, behind
  /// all that was launched before.
  void launch(std::uint32_t bucket);
  bool is_moving() const { return !runs().active().empty() || runs().has_published(); }
  /// Breaks for reasons of time.
  void check_time(Nanoseconds now, Nanoseconds stall);
  Nanoseconds next_check() const;
  /// No bucket is in force, none is being finished. If some are, a break begins.
  bool is_out();
  /// The coordinator has gone, and all that it said was read: in an ordered group nothing more is launched.
  void end_log();
  /// A break does not end although a request's time was up a while ago: the ranks without which it does not, none if
  /// they cannot be told.
  std::optional<std::vector<int>> stuck(Nanoseconds now) const;
  /// In a break: the ranks that what was decided waits for.
  std::vector<int> draining_for() const;
  /// Those whose requests are over well, for the engine to finish and then to clear.
  std::vector<TicketPtr>& completed() { return state_.completed; }
  /// What else the calls above have left to do; empty if nothing.
  bool take(ReplayOutbox::Outcome& outcome);

  // What only the calls above change.
  bool all_left() const { return member_.all_left(); }
  bool self_left() const { return member_.self_left(); }
  bool has_left(int member) const { return member_.has_left(member); }
  const Status& closed() const { return member_.closed(); }
  bool is_ordered() const { return member_.is_ordered(); }
  /// Requests wait for the coordinator.
  bool is_waiting() const;
  /// One that has had no answer `grace` after its deadline, if there is one.
  std::optional<std::string> overdue(Nanoseconds now, Nanoseconds grace) const;
  const ReplayCounters& counters() const { return state_.counters; }
  /// How many buckets check_time() goes over; for tests.
  std::size_t watched() const;

 private:
  template <typename Event>
  auto step(Event event) {
    return member_.step(std::move(event), actions_);
  }
  BucketRuns& runs() { return state_.runs; }
  const BucketRuns& runs() const { return state_.runs; }
  void break_for(agreement::Reason reason, std::uint32_t bucket = 0);
  bool place_under_gate(const TicketPtr& ticket, std::optional<Descriptor>& descriptor);
  bool place_call(const TicketPtr& ticket);
  bool find_place(Ticket& ticket, const Descriptor& descriptor);
  void moved(std::uint32_t id, Progress progress, Nanoseconds before);
  void look_at_breaks();
  std::vector<int> decided_wait_for() const;
  std::vector<int> not_frozen() const;
  bool is_gone(int rank) const { return peers_.departure(rank) != transport::Departure::none; }
  void end(const Status& reason, bool is_quiet);

  backend::Backend& backend_;
  transport::Peers& peers_;
  const Clock& clock_;
  const std::int32_t group_id_;

  mutable SpinLock gate_;
  agreement::Member member_;  ///< guarded by gate_
  ReplayState state_;
  ReplayActions actions_;
  bool peers_gave_up_ = false;
  observe::Observer* observer_ = nullptr;
};

}  // namespace ronde::engine
