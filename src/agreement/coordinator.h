// Coordinator: the half of agreement that lives in one rank of a group. It collects what every member requests, checks
// that they match, and answers all of them in one totally ordered log (docs/agreement.md).
//
// No clock, no memory but its own, no thread: events go in, log entries come out. Every answer about a name is given
// when the n-th request of that name has come from every member that has not joined, or when its time is up.
//
// With a layout it plans as well: which names are replayed as which bucket (bucket_planner.h) and when that is put in
// force (INSTALL, ADD); where buckets lie its backend says (types/bucket_layout.h). Without one, all stays in learning.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "agreement/bucket_planner.h"
#include "agreement/call_bursts.h"
#include "agreement/call_counts.h"
#include "control/messages.h"
#include "observe/stall.h"
#include "types/bucket_layout.h"
#include "types/group.h"

namespace ronde::agreement {

class Coordinator {
 public:
  /// `layout`: where buckets lie, which must outlive this; null: nothing is replayed.
  Coordinator(Group group, control::SettingsEntry settings, BucketLayout* layout = nullptr);

  /// `member` is an index in the group. A second request of a name that this member already waits for is INTERNAL (the
  /// pending table of that rank should have refused it).
  Status on_request(int member, control::RequestMessage request, Nanoseconds now);
  /// The member's program made this unnamed call in vain: it fails on the others.
  void on_refused(int member, const control::RefusedMessage& message);
  /// The member's program does not want the end of what it has requested under this name: unless all have requested it
  /// by now, it fails on every member.
  void on_cancel(int member, const control::CancelMessage& message);
  /// The member has left the epoch. INTERNAL if it is another than the running one, or said twice.
  Status on_end(int member, const control::EndMessage& message);
  /// The member has no more data: names are answered without it until all have joined.
  Status on_join(int member, const control::JoinMessage& message = {});
  /// The member's answer to PREPARE.
  Status on_prepared(int member, const control::PreparedMessage& message);
  /// The member does not use this bucket any more; its layout is taken back when all have said so.
  Status on_free(int member, std::uint32_t bucket);
  /// The member submits nothing any more: every name that it has not submitted fails now. It has left (a LEFT entry)
  /// once the names that it has submitted are answered, or at once if it does not wait for that (`final`).
  void on_leave(int member, bool final);
  /// Another row is in force from here on: for what is agreed and planned after this. Nothing if somebody leaves.
  void on_table(const Thresholds& thresholds);
  /// Fails every name whose time is up, naming the members that have not come.
  void on_time(Nanoseconds now);
  /// When on_time() has something to do at the earliest; kNever if nothing waits under a limit.
  Nanoseconds next_deadline() const;

  /// The entries since the last call, to be sent to every member in this order. What became ready since then is one
  /// EXEC entry per run of ready names: the unit that the planner fuses within.
  std::vector<control::Message> take_log();

  /// What waits and for whom, oldest first, for the stall report.
  std::vector<observe::Waiting> waiting() const;
  bool is_waiting() const { return !held_.empty(); }
  /// Names that a request which some rank has sent before it read their last error may still be about.
  std::size_t moved_names() const { return moved_at_.size(); }
  /// Of the last INSTALL; 0 before the first.
  std::uint32_t epoch() const { return epoch_; }
  /// A bucket may be in force on some member.
  bool epoch_runs() const { return epoch_ > 0 && !epoch_over_; }
  /// So many buckets are planned that those not in use should go, for which the epoch must end: the member here breaks
  /// it (Reason::idle).
  bool wants_break() const { return epoch_runs() && planner_.live() >= many_; }
  /// How many new ones make that so, or as many as were in use, if these are more. 1,024 if it is not said.
  void set_many(std::size_t many) { many_ = fewest_ = many; }
  bool all_left() const { return static_cast<int>(left_.size()) == group_.size(); }

 private:
  struct Held {
    std::vector<bool> has;                    ///< by member
    std::vector<Descriptor> descriptors;      ///< by member
    std::vector<std::string> call_sites;      ///< by member
    std::vector<std::string> planning_names;  ///< by member, of an unnamed call; none if no member has one
    int count = 0;
    std::uint64_t call_number = 0;  ///< of an unnamed call
    std::uint64_t asked = 0;        ///< the largest position of its requests
    std::uint64_t order = 0;        ///< of its first request among all
    Nanoseconds since = 0;
    Nanoseconds deadline = kNever;
  };

  /// PREPARE is logged, not all have answered.
  struct Preparing {
    std::set<int> answered;
    bool refused = false;
  };

  void answer(const std::string& name, Held& held);
  bool is_complete(const Held& held) const;
  std::vector<int> ranks_without(const std::vector<bool>& has) const;
  void forget(const std::string& name);
  void forget_calls(const std::set<std::string>& planning_names);
  void plan_answer(const std::string& name, const Held& held, const Descriptor& descriptor, const HeapPlaces& places);
  static std::set<std::string> planning_names_of(const Held& held);
  void drop_incomplete_bursts(std::vector<std::uint32_t>& buckets);
  bool is_late(const control::RequestMessage& request) const;
  void note_move(const std::string& name);
  void note_read(std::size_t member, std::uint64_t label);
  void append(control::Message entry);
  bool plans() const { return layout_ != nullptr && leaving_.empty() && left_.empty(); }
  void prepare_new_buckets();
  void put_in_force();
  void retire_old_buckets();
  void append_error(const std::string& name, const Held& held, Code code, int failed_rank, std::string text,
                    const std::vector<int>& unconcerned = {});
  std::vector<int> missing_ranks(const Held& held) const;
  /// Fails a name that a leaving member has not submitted; true if it did.
  bool fail_if_abandoned(const std::string& name, const Held& held);
  void fail_beyond_barrier(const std::string& name, const Held& held);
  void fail_beyond_barriers();
  void note_who_has_left();
  void forget_deadline(const std::string& name, const Held& held);
  void log_left(int member);

  Group group_;
  std::unordered_map<std::string, Held> held_;
  /// By name the number of ERROR, INSTALL and ADD entries up to and including the last that concerned it: a request
  /// with a smaller label was sent before its rank read that entry, which moves or fails it there; it must not be held
  /// here.
  std::unordered_map<std::string, std::uint64_t> moved_at_;
  std::deque<std::pair<std::uint64_t, std::string>> in_order_of_moves_;  ///< what moved_at_ holds, and held before
  std::vector<std::uint64_t> moves_read_;                                ///< by member: the label of its last request
  std::uint64_t moves_ = 0;     ///< such entries logged so far; a rank's label counts those it has read
  std::uint64_t position_ = 0;  ///< entries of any kind logged so far
  std::uint64_t orders_ = 0;
  std::set<std::pair<Nanoseconds, std::string>> deadlines_;  ///< of the names held, those that have one
  CallCounts calls_;
  std::uint64_t restarts_ = 0;  ///< the most barriers and joins that a member had called when it joined
  CallBursts bursts_;
  std::vector<bool> joined_;  ///< by member
  std::vector<bool> ended_;   ///< by member: has left epoch_
  std::uint32_t epoch_ = 0;
  bool epoch_over_ = false;  ///< all have left epoch_
  BucketLayout* layout_;
  BucketPlanner planner_;
  std::map<std::uint32_t, Preparing> preparing_;  ///< by bucket
  /// By bucket, of those with a layout: the members that have freed it, by member, once one has.
  std::map<std::uint32_t, std::vector<bool>> freed_;
  std::uint32_t wait_ = 0;     ///< clean rounds before a bucket comes into force again
  std::size_t fewest_ = 1024;  ///< as set_many() has it
  std::size_t many_ = fewest_;
  std::vector<std::uint32_t> unused_;  ///< as the first member has said at its END
  bool healthy_ = false;               ///< epoch_ came to many instances before the break
  std::set<int> leaving_;              ///< have said LEAVE, wait for what they have submitted
  std::set<int> left_;                 ///< LEFT is logged
  std::string refused_;                ///< the last call that on_refused() answered
  std::vector<control::Message> log_;
};

}  // namespace ronde::agreement
