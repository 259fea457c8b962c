// ReplayActions: what the member's half of agreement wants done (agreement/sink.h), done on this rank's buckets and
// requests (bucket_runs.h, pending_table.h). What cannot be done here (send, plan, finish tickets) is left in the
// outbox (replay_outbox.h).
//
// Two locks: agreement's calls come under the gate (replay.h).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agreement/member.h"
#include "agreement/sink.h"
#include "backend/backend.h"
#include "engine/membership/deaths.h"
#include "engine/replay/bucket_run.h"
#include "engine/replay/bucket_runs.h"
#include "engine/replay/bucket_watch.h"
#include "engine/replay/replay_outbox.h"
#include "engine/requests/pending_table.h"
#include "engine/requests/ticket.h"
#include "transport/peers.h"

namespace ronde::engine {

class ReplayActions final : public agreement::Sink {
 public:
  struct Counters {
    std::atomic<std::uint64_t> installs{0};      ///< INSTALL and ADD read
    std::atomic<std::uint64_t> breaks{0};        ///< epochs left
    std::atomic<std::uint64_t> instances{0};     ///< buckets reduced without a message
    std::atomic<std::uint64_t> direct_bytes{0};  ///< of those where the tensors lie
    std::atomic<std::uint64_t> entries{0};       ///< log entries read
    std::atomic<std::uint64_t> voided{0};        ///< buckets in which other unnamed calls had met
  };

  /// All of them must outlive this. `member`: the one whose calls come here.
  ReplayActions(const agreement::Member& member, backend::Backend& backend, transport::Peers& peers, Deaths& deaths,
                const PendingTable& pending, const Clock& clock)
      : member_(member), backend_(backend), peers_(peers), deaths_(deaths), pending_(pending), clock_(clock) {}

  // ---- Any thread.

  /// A bucket was published, or the engine was called to the outbox.
  bool has_work() const { return outbox_.is_called() || runs_.has_published(); }
  /// Under which locks its parts lie is said there.
  ReplayOutbox& outbox() { return outbox_; }
  /// What of it any thread may ask, and under which locks the rest lies, is said there; as with the watch.
  BucketRuns& runs() { return runs_; }
  const BucketRuns& runs() const { return runs_; }
  BucketWatch& watch() { return watch_; }
  const BucketWatch& watch() const { return watch_; }
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  /// Peers are kept out of it.
  bool is_withdrawn(const MemoryPlace& place, const Descriptor& descriptor) const {
    return place.is_known() && backend_.is_withdrawn(place, payload_bytes(descriptor));
  }

  // ---- Under the gate.

  /// The unnamed call that the member is told of; null: none.
  void set_placing(TicketPtr ticket) { placing_ = std::move(ticket); }
  /// Before a JOIN: the number of this rank's last unnamed call.
  void set_last_call(std::uint64_t number) { last_call_ = number; }
  void set_observed(bool is_observed);

  // ---- Under the progress lock.

  /// The tickets whose requests are over well, to be finished and cleared.
  std::vector<TicketPtr>& completed() { return completed_; }

  // ---- For the member.

  void publish(std::uint32_t bucket, agreement::Flag flag) override;
  void complete(std::uint32_t bucket, std::uint64_t instance) override;
  void voided(std::uint32_t bucket) override;
  void copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t instance) override;
  void set_frozen(std::uint32_t epoch, agreement::Reason reason) override;
  void send_frozen(std::uint32_t epoch, agreement::Reason reason) override;
  void store_quiet(const agreement::RankSet&) override { deaths_.say_quiet(); }
  Nanoseconds send_request(control::RequestMessage message, Nanoseconds deadline) override;
  void send_end(control::EndMessage message) override { outbox_.send(std::move(message)); }
  void send_join() override { outbox_.send(control::JoinMessage{last_call_}); }
  void send_leave() override { outbox_.send(control::LeaveMessage{}); }
  void settings(const control::SettingsEntry& entry) override { outbox_.settle(entry); }
  void table(const Thresholds& thresholds) override;
  void execute(std::vector<control::ExecEntry::Item> items) override { outbox_.agree(std::move(items)); }
  void launch(std::uint32_t bucket) override { outbox_.agree(ReplayOutbox::Launch{bucket}); }
  void prepare(const Bucket& bucket) override;
  void install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) override;
  void ended(std::uint32_t epoch) override;
  void retire(std::uint32_t bucket) override;
  void join_done(const control::JoinDoneEntry& entry) override { outbox_.join(entry); }
  void fail(const std::string& name, Status status) override { outbox_.fail(name, std::move(status)); }
  void bug(std::string_view what) override { outbox_.report_bug(std::string(what)); }

 private:
  std::unique_ptr<BucketRun> make_ready(const Bucket& bucket);
  void send_full(std::uint32_t bucket, agreement::Flag flag, std::uint64_t calls);
  std::uint64_t calls_in(std::uint32_t bucket) const;
  Thresholds in_force() const;

  const agreement::Member& member_;
  backend::Backend& backend_;
  transport::Peers& peers_;
  Deaths& deaths_;
  const PendingTable& pending_;
  const Clock& clock_;
  Counters counters_;
  ReplayOutbox outbox_;
  BucketRuns runs_;
  BucketWatch watch_;
  TicketPtr placing_;
  std::optional<Thresholds> table_;  ///< of the last TABLE read: for the buckets prepared from now on
  std::uint64_t last_call_ = 0;
  bool is_observed_ = false;
  std::vector<TicketPtr> completed_;
};

}  // namespace ronde::engine
