// Replay: this rank's side of agreement and of its buckets: the state machine of agreement/member.h with the words,
// memory and tickets that it speaks of. What it cannot do itself (send, plan, finish tickets) it leaves in an Outcome.
//
// Two locks. The gate, held for moments, guards the member and the places of tickets: submitting threads go through it
// straight into their bucket. The progress lock guards the rest, as everywhere in the engine. Lock order: progress
// lock, gate, pending table.
//
// Copy-in happens inside the gate, against the letter of docs/agreement.md: what is copied there is at most a small
// tensor (larger private ones are ordered, shared ones direct; both are read in place), and a freeze waits for that.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agreement/member.h"
#include "backend/backend.h"
#include "base/gate.h"
#include "engine/loss.h"
#include "engine/patience.h"
#include "engine/pending_table.h"
#include "engine/ticket.h"
#include "observe/observer.h"
#include "transport/peers.h"
#include "types/operation.h"
#include "types/persistent_collective.h"

namespace ronde::engine {

class Replay final : public agreement::Sink {
 public:
  struct Counters {
    std::atomic<std::uint64_t> installs{0};      ///< INSTALL and ADD read
    std::atomic<std::uint64_t> breaks{0};        ///< epochs left
    std::atomic<std::uint64_t> instances{0};     ///< buckets reduced without a message
    std::atomic<std::uint64_t> direct_bytes{0};  ///< of those where the tensors lie
    std::atomic<std::uint64_t> entries{0};       ///< log entries read
    std::atomic<std::uint64_t> voided{0};        ///< buckets in which other unnamed calls had met
  };

  /// Of the log: what is to be planned together, or the row that holds for what comes after it.
  using Answer = std::variant<std::vector<control::ExecEntry::Item>, Thresholds>;

  /// What the engine has to do after any of the calls below, in this order.
  struct Outcome {
    std::vector<std::pair<std::string, Status>> failed;  ///< requests that are over
    std::optional<control::SettingsEntry> settings;
    std::vector<Answer> agreed;  ///< in this order
    std::vector<std::pair<control::Message, Nanoseconds>>
        messages;                                  ///< to the coordinator; with a request its deadline
    std::optional<control::JoinDoneEntry> joined;  ///< all members have
    std::optional<std::string> bug;
  };

  Replay(Group group, backend::Backend& backend, transport::Peers& peers, Loss& loss, const PendingTable& pending,
         const Clock& clock);

  // ---- Any thread.

  /// Puts the ticket into its bucket if its name is replayed just now; false: it must be handed in to the engine.
  /// Requires: the name is taken by this ticket.
  bool place(const TicketPtr& ticket);
  /// The same for the first `placed` of many; also how many it were when memory ran out. Takes the gate now and then.
  void place(std::span<const TicketPtr> tickets, std::size_t& placed);
  /// Whether the engine should be driven: a bucket was published, something waits to be sent or told, or the first
  /// request has come after a quiet time, from when on clocks must be watched.
  bool has_work() const {
    return has_work_.load(std::memory_order_acquire) || has_fresh_.load(std::memory_order_acquire);
  }
  /// Somebody waits for this ticket, so what it waits for is looked at closely.
  void want(Ticket& ticket) {
    ticket.want();
    if (!ticket.is_alone() && replaying_.load(std::memory_order_relaxed) &&
        !look_soon_.load(std::memory_order_relaxed)) {
      look_soon_.store(true, std::memory_order_relaxed);
      has_work_.store(true, std::memory_order_release);
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
  std::vector<HeapSpan> exposed() const;
  /// What agreement is told of a request: its descriptor, and where its tensor lies if peers reach it there. Any
  /// thread.
  Descriptor described(const Request& request) const;
  /// Breaks if something is replayed in memory that has been withdrawn.
  void leave_withdrawn_places();
  /// Null: nobody.
  void observe(observe::Observer* observer);
  /// Moves what is published, looks at the peers' break words.
  Progress advance();
  /// Only the first; for a waiter that looks again and again.
  Progress advance_buckets();
  bool is_moving() const { return !active_.empty() || has_fresh_.load(std::memory_order_relaxed); }
  /// Breaks for reasons of time.
  void check_time(Nanoseconds now, Nanoseconds stall);
  Nanoseconds next_check() const;
  /// No bucket is in force, none is being finished. If some are, a break begins.
  bool is_out();
  /// A break does not end although a request's time was up a while ago: the ranks without which it does not, none if
  /// they cannot be told.
  std::optional<std::vector<int>> stuck(Nanoseconds now) const;
  /// In a break: the ranks that what was decided waits for.
  std::vector<int> draining_for() const;
  /// Those whose requests are over well, for the engine to finish and then to clear.
  std::vector<TicketPtr>& completed() { return completed_; }
  /// What else the calls above have left to do; empty if nothing.
  bool take(Outcome& outcome);

  // What only the calls above change.
  bool all_left() const { return member_.all_left(); }
  bool self_left() const { return member_.self_left(); }
  bool has_left(int member) const { return member_.has_left(member); }
  const Status& closed() const { return member_.closed(); }
  /// Requests wait for the coordinator.
  bool is_waiting() const;
  /// One that has had no answer `grace` after its deadline, if there is one.
  std::optional<std::string> overdue(Nanoseconds now, Nanoseconds grace) const;
  const Counters& counters() const { return counters_; }
  /// How many buckets check_time() goes over; for tests.
  std::size_t watched() const;

  // ---- For the member, which calls these under the gate.

  void publish(std::uint32_t bucket, agreement::Flag flag) override;
  void complete(std::uint32_t bucket, std::uint64_t instance) override;
  void voided(std::uint32_t bucket) override;
  void copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t instance) override;
  void set_frozen(std::uint32_t epoch, agreement::Reason reason) override;
  void store_quiet(const agreement::RankSet&) override { loss_.say_quiet(); }
  Nanoseconds send_request(control::RequestMessage message, Nanoseconds deadline) override;
  void send_end(control::EndMessage message) override { send(std::move(message)); }
  void send_join() override { send(control::JoinMessage{last_call_}); }
  void send_leave() override { send(control::LeaveMessage{}); }
  void settings(const control::SettingsEntry& entry) override { outcome_.settings = entry; }
  void table(const Thresholds& thresholds) override;
  void execute(std::vector<control::ExecEntry::Item> items) override;
  void prepare(const Bucket& bucket) override;
  void install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) override;
  void ended(std::uint32_t epoch) override;
  void retire(std::uint32_t bucket) override;
  void join_done(const control::JoinDoneEntry& entry) override { outcome_.joined = entry; }
  void fail(const std::string& name, Status status) override;
  void bug(std::string_view what) override;

 private:
  /// A bucket and the tickets in it.
  struct Run {
    std::unique_ptr<PersistentCollective> data;
    std::vector<TicketPtr> tickets;  ///< by place; guarded by the gate
    std::uint64_t direct_bytes = 0;  ///< payload of a direct bucket
    Patience patience;
    observe::Instance observed = {};  ///< while somebody observes; guarded by the gate
    bool in_force = false;
    bool is_watched = false;  ///< in watched_
    bool has_unnamed = false;
  };

  void send(control::Message message);
  bool place_under_gate(const TicketPtr& ticket, std::optional<Descriptor>& descriptor);
  bool place_call(const TicketPtr& ticket);
  std::uint64_t calls_in(std::uint32_t bucket) const;
  bool find_place(Ticket& ticket, const Descriptor& descriptor);
  bool is_withdrawn(const HeapPlace& place, const Descriptor& descriptor) const;
  bool make_ready(const Bucket& bucket);
  Thresholds in_force() const;
  void collect_fresh();
  void moved(std::uint32_t id, Progress progress, Nanoseconds before);
  observe::Instance note(Run& run, std::uint32_t id, Progress progress, Nanoseconds before);
  void look_at_breaks();
  std::vector<int> decided_wait_for() const;
  bool all_are_frozen() const { return not_frozen().empty(); }
  std::vector<int> not_frozen() const;
  static bool is_wanted(const Run& run);
  bool is_gone(int rank) const { return peers_.departure(rank) != transport::Departure::none; }
  void end(const Status& reason, bool is_quiet);
  bool is_overdue(Run& run, std::uint32_t id, Nanoseconds now, Nanoseconds stall, agreement::Reason& reason);

  backend::Backend& backend_;
  const PendingTable& pending_;
  transport::Peers& peers_;
  Loss& loss_;
  const Clock& clock_;
  const std::int32_t group_id_;
  std::optional<Thresholds> table_;  ///< of the last TABLE read: for the buckets prepared from now on
  Counters counters_;

  mutable Gate gate_;
  TicketPtr placing_;                       ///< the unnamed call that the member is told of; guarded by gate_
  agreement::Member member_;                ///< guarded by gate_
  std::vector<std::unique_ptr<Run>> runs_;  ///< by bucket; the vector guarded by gate_
  std::vector<std::uint32_t> fresh_;        ///< guarded by gate_: published since the last look
  std::vector<std::uint32_t> watched_;  ///< guarded by gate_: those in which something was under way at the last look
  std::uint64_t last_call_ = 0;         ///< guarded by gate_: before join()
  Outcome outcome_;                     ///< guarded by gate_
  std::atomic<bool> replaying_{false};  ///< a hint: names may be in force
  std::atomic<bool> has_work_{false};   ///< the outcome is not empty
  std::atomic<bool> has_fresh_{false};
  std::atomic<bool> under_way_{false};  ///< a hint: something is in a bucket, so clocks are watched
  std::atomic<bool> look_soon_{false};

  std::vector<std::uint32_t> active_;  ///< published, ascending
  std::vector<TicketPtr> completed_;
  bool peers_gave_up_ = false;
  observe::Observer* observer_ = nullptr;
  bool is_observed_ = false;  ///< guarded by gate_
  Nanoseconds next_check_ = 0;
  Nanoseconds last_look_ = 0;
};

}  // namespace ronde::engine
