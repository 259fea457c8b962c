// Coordinator: the half of agreement that lives in one rank of a group. It collects what every member requests, checks
// that they match, and answers all of them in one totally ordered log (docs/agreement.md).
//
// No clock, no memory but its own, no thread: events go in, log entries come out. Every answer about a name is given
// when the n-th request of that name has come from every member that has not joined, or when its time is up.
//
// With a layout it plans as well: which names are replayed as which bucket and when that is put in force (epochs.h);
// where buckets lie its backend says (types/bucket_layout.h). Without one, all stays in negotiation.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agreement/call_counts.h"
#include "agreement/epochs.h"
#include "agreement/held_requests.h"
#include "agreement/launches.h"
#include "agreement/request_labels.h"
#include "control/messages.h"
#include "observe/stall.h"
#include "types/bucket_layout.h"
#include "types/group.h"

namespace ronde::agreement {

class Coordinator {
 public:
  /// `layout`: where buckets lie, which must outlive this; null: nothing is replayed. `may_reduce_at`: as answer_to().
  Coordinator(Group group, control::SettingsEntry settings, BucketLayout* layout = nullptr,
              MayReduceAt may_reduce_at = {});
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// `member` is an index in the group. A second request of a name that this member already waits for is INTERNAL (the
  /// pending table of that rank should have refused it).
  Status on_request(int member, control::RequestMessage request, Nanoseconds now);
  /// The member's program made this unnamed call in vain: it fails on the others.
  void on_refused(int member, const control::RefusedMessage& message);
  /// The member's program does not want the end of what it has requested under this name: unless all have requested it
  /// by now, it fails on every member.
  void on_cancel(int member, const control::CancelMessage& message);
  /// In an ordered group: the member has filled a bucket. INTERNAL if it cannot have.
  Status on_full(int member, const control::FullMessage& message);
  /// In an ordered group: the member cannot go on in this epoch.
  void on_frozen(const control::FrozenMessage& message);
  /// The member has left the epoch. INTERNAL if it is another than the running one, or said twice.
  Status on_end(int member, const control::EndMessage& message) { return epochs_.on_end(member, message); }
  /// The member has no more data: names are answered without it until all have joined.
  Status on_join(int member, const control::JoinMessage& message = {});
  /// The member's answer to PREPARE.
  Status on_prepared(int member, const control::PreparedMessage& message) {
    return epochs_.on_prepared(member, message);
  }
  /// The member does not use this bucket any more; its layout is taken back when all have said so.
  Status on_free(int member, std::uint32_t bucket) { return epochs_.on_free(member, bucket); }
  /// The member submits nothing any more: every name that it has not submitted fails now. It has left (a LEFT entry)
  /// once the names that it has submitted are answered, or at once if it does not wait for that (`final`).
  void on_leave(int member, bool final);
  /// Another row is in force from here on: for what is agreed and planned after this. Nothing if somebody leaves.
  void on_table(const Thresholds& thresholds);
  /// Fails every name whose time is up, naming the members that have not come.
  void on_time(Nanoseconds now);
  /// When on_time() has something to do at the earliest; kNever if nothing waits under a limit.
  Nanoseconds next_deadline() const { return held_.next_deadline(); }

  /// The entries since the last call, to be sent to every member in this order. What became ready since then is one
  /// EXEC entry per run of ready names: the unit that the planner fuses within.
  std::vector<control::Message> take_log();
  /// Some have been added since. take_log() may add more.
  bool has_logged() const { return !log_.empty(); }

  /// What waits and for whom, oldest first, for the stall report.
  std::vector<observe::Waiting> waiting() const { return held_.waiting(group_.ranks, joined_); }
  bool is_waiting() const { return !held_.is_empty(); }
  /// Names that a request which some rank has sent before it read their last error may still be about.
  std::size_t moved_names() const { return labels_.names(); }
  /// Of the last INSTALL; 0 before the first.
  std::uint32_t epoch() const { return epochs_.epoch(); }
  /// A bucket may be in force on some member.
  bool epoch_runs() const { return epochs_.is_running(); }
  /// So many buckets are planned that those not in use should go, for which the epoch must end: the member here breaks
  /// it (Reason::idle).
  bool wants_break() const { return epochs_.wants_break(); }
  /// How many new ones make that so, or as many as were in use, if these are more. 1,024 if it is not said.
  void set_many(std::size_t many) { epochs_.set_many(many); }
  bool all_left() const { return static_cast<int>(left_.size()) == group_.size(); }

 private:
  void answer(const std::string& name, const HeldRequest& held);
  void answer_early(const std::string& name, const HeldRequest& held);
  bool is_complete(const HeldRequest& held) const;
  std::vector<int> missing_ranks(const HeldRequest& held) const;
  bool plans() const { return epochs_.plans() && leaving_.empty() && left_.empty(); }
  void put_in_force();
  void log_break();
  void append(control::Message entry);
  void append_error(const std::string& name, const HeldRequest& held, Code code, int failed_rank, std::string text,
                    const std::vector<int>& unconcerned = {});
  bool is_abandoned(const HeldRequest& held) const;
  void fail_abandoned(const std::string& name, const HeldRequest& held);
  bool is_beyond_barrier(const HeldRequest& held) const;
  void fail_beyond_barrier(const std::string& name, const HeldRequest& held);
  void note_who_has_left();
  void log_left(int member);

  const Group group_;
  const MayReduceAt may_reduce_at_;
  bool has_lost_order_ = false;  ///< members have made calls behind others' ends in different orders
  HeldRequests held_;
  RequestLabels labels_;
  std::uint64_t position_ = 0;  ///< entries of any kind logged so far
  CallCounts calls_;
  std::uint64_t restarts_ = 0;  ///< the most barriers and joins that a member had called when it joined
  std::vector<bool> joined_;    ///< by member
  Epochs epochs_;
  std::optional<Launches> launches_;  ///< of an ordered group
  std::set<int> leaving_;             ///< have said LEAVE, wait for what they have submitted
  std::set<int> left_;                ///< LEFT is logged
  std::string refused_;               ///< the last call that on_refused() answered
  std::vector<control::Message> log_;
};

}  // namespace ronde::agreement
