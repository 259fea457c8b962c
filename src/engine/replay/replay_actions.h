// ReplayActions: what the member's half of agreement wants done (agreement/sink.h), done on this rank's buckets and
// requests (bucket_runs.h, pending_table.h). What cannot be done here (send, plan, finish tickets) is left in the
// outbox (replay_outbox.h).
//
// Two locks: agreement's calls come under the gate (replay.h).
#pragma once

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
#include "engine/replay/replay_state.h"
#include "engine/requests/pending_table.h"
#include "engine/requests/ticket.h"
#include "transport/peers.h"

namespace ronde::engine {

class ReplayActions final : public agreement::Sink {
 public:
  /// All of them must outlive this. `member`: the one whose calls come here.
  ReplayActions(const agreement::Member& member, ReplayState& state, backend::Backend& backend, transport::Peers& peers,
                Deaths& deaths, const PendingTable& pending, const Clock& clock)
      : member_(member),
        state_(state),
        backend_(backend),
        peers_(peers),
        deaths_(deaths),
        pending_(pending),
        clock_(clock) {}

  // ---- Any thread.

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

  // ---- For the member.

  void publish(std::uint32_t bucket, agreement::Flag flag) override;
  void complete(std::uint32_t bucket, std::uint64_t instance) override;
  void voided(std::uint32_t bucket) override;
  void copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t instance) override;
  void set_frozen(std::uint32_t epoch, agreement::Reason reason) override;
  void send_frozen(std::uint32_t epoch, agreement::Reason reason) override;
  void store_quiet(const agreement::RankSet&) override { deaths_.say_quiet(); }
  Nanoseconds send_request(control::RequestMessage message, Nanoseconds deadline) override;
  void send_end(control::EndMessage message) override { state_.outbox.send(std::move(message)); }
  void send_join() override { state_.outbox.send(control::JoinMessage{last_call_}); }
  void send_leave() override { state_.outbox.send(control::LeaveMessage{}); }
  void settings(const control::SettingsEntry& entry) override { state_.outbox.settle(entry); }
  void table(const Thresholds& thresholds) override;
  void execute(std::vector<control::ExecEntry::Item> items) override { state_.outbox.agree(std::move(items)); }
  void launch(std::uint32_t bucket) override { state_.outbox.agree(ReplayOutbox::Launch{bucket}); }
  void prepare(const Bucket& bucket) override;
  void install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) override;
  void ended(std::uint32_t epoch) override;
  void retire(std::uint32_t bucket) override;
  void join_done(const control::JoinDoneEntry& entry) override { state_.outbox.join(entry); }
  void fail(const std::string& name, Status status) override { state_.outbox.fail(name, std::move(status)); }
  void bug(std::string_view what) override { state_.outbox.report_bug(std::string(what)); }

 private:
  std::unique_ptr<BucketRun> make_ready(const Bucket& bucket);
  void send_full(std::uint32_t bucket, agreement::Flag flag, std::uint64_t calls);
  std::uint64_t calls_in(std::uint32_t bucket) const;
  Thresholds in_force() const;

  const agreement::Member& member_;
  ReplayState& state_;
  backend::Backend& backend_;
  transport::Peers& peers_;
  Deaths& deaths_;
  const PendingTable& pending_;
  const Clock& clock_;
  TicketPtr placing_;
  std::optional<Thresholds> table_;  ///< of the last TABLE read: for the buckets prepared from now on
  std::uint64_t last_call_ = 0;
  bool is_observed_ = false;
};

}  // namespace ronde::engine
