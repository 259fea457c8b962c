// Member: the half of agreement that lives in every rank, one per group: the state machine of docs/agreement.md. Its
// transitions are step(event, sink), one overload per row of the table; each looks at the mode (the columns) and calls
// the sink. No clock, no thread, no memory but its own.
//
// How the engine uses it
// ----------------------
// One small lock, the gate, around every call, those that only look included. Any thread submits; everything else comes
// from the thread that holds the progress lock. Nothing here blocks, calls back or sleeps.
//
//  submitting   A slot that knows its (bucket, place), which where() tells once sink.install() says so, and which is
//               forgotten when the slot's request changes: copy the data in, outside the gate or inside, for the flag
//               next_flag(bucket) (which changes at install() and complete() only: keep it in an atomic of the engine's
//               own), then step(SubmitPlace{..., copied = that flag}). If the epoch has changed meanwhile the member
//               says copy_in() again, or sends the request into negotiation. A bucket that is not in force any more is
//               no error either: the request goes by its name; of one that is retired the names are gone: step(Submit),
//               as for everything else. Requires that the name's previous request is over.
//  polling      For every bucket with is_published(): all pub >= its flag and stage none: step(AllPublished); own slice
//               finished: step(Reduced); stage reduced and all done words >= flag: step(AllDone) (not for inline).
//               frozen words: one equal to epoch() in replay: step(PeerFrozen); all equal to epoch() in mode frozen (a
//               rank that has left counts as frozen): read all pub words, then step(AllFrozen) with the minimum.
//  log          step(LogRead) with every entry as it comes; what must not be read during a break is kept here.
//  timers       half full buckets (is_half_full), full ones that wait for peers, deadlines: step(LocalReason). In mode
//               negotiate the coordinator keeps the limits.
//  ordered      A group whose log says so (SettingsEntry::ordered) polls no pub and frozen words: the sink sends
//               FULL and FROZEN, what sink.launch() names is what all have published, and BREAK is the decision.
//  deaths       stop the negotiated path's work, then step(Lost); when every survivor's quiet word says as much (or the
//               limit has passed) step(AllQuiet).
//
// Where requests are, and how far their buckets, is kept by OutstandingRequests (outstanding_requests.h); here is what
// that means for the group: the mode.
//
// Hot events (SubmitPlace, AllPublished, Reduced, AllDone) are inline, allocate nothing and look up no name; with a
// final sink their calls are direct.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "agreement/member_events.h"
#include "agreement/outstanding_requests.h"
#include "agreement/refused_calls.h"
#include "agreement/sink.h"
#include "agreement/traps.h"
#include "types/bucket.h"
#include "types/group.h"

namespace ronde::agreement {

class Member {
 public:
  /// `own`: index of this rank in the group.
  Member(Group group, int own);

  // ---- The transitions. Submits return which lane the request took.

  template <typename S>
  Lane step(const SubmitPlace& event, S& sink);
  Lane step(Submit event, Sink& sink);
  template <typename S>
  bool step(const AllPublished& event, S& sink);
  template <typename S>
  void step(const Reduced& event, S& sink);
  template <typename S>
  void step(const AllDone& event, S& sink);
  void step(const Voided& event, Sink& sink);
  void step(const Refused& event, Sink& sink);
  void step(const PeerFrozen& event, Sink& sink);
  void step(const AllFrozen& event, Sink& sink);
  void step(const LocalReason& event, Sink& sink);
  void step(LogRead event, Sink& sink);
  void step(const Executed& event, Sink& sink);
  void step(const JoinCalled& event, Sink& sink);
  void step(const LeaveCalled& event, Sink& sink);
  void step(const Lost& event, Sink& sink);
  void step(const AllQuiet& event, Sink& sink);
  void step(const Close& event, Sink& sink);

  // ---- Looking.

  Mode mode() const { return mode_; }
  std::uint32_t epoch() const { return buckets().epoch(); }
  std::uint64_t label() const { return requests_.label(); }
  /// Log entries read.
  std::uint64_t position() const { return requests_.position(); }
  const RankSet& lost() const { return lost_; }
  Reason reason() const { return reason_; }

  struct Where {
    std::uint32_t bucket = 0;
    std::uint32_t place = 0;
  };
  /// Where this name is planned in the epoch in force; in mode negotiate nowhere.
  std::optional<Where> where(const std::string& name) const;
  /// Unnamed calls of this planning name have places in the epoch in force.
  bool is_planned(const std::string& planning_name) const { return requests_.calls().contains(planning_name); }
  /// The buckets in force, in the order in which they came into force; also during a break.
  const std::vector<std::uint32_t>& in_force() const { return buckets().in_force(); }
  std::size_t bucket_count() const { return buckets().size(); }
  /// Stays where it is.
  const Bucket& bucket(std::uint32_t id) const { return buckets()[id].agreed; }
  /// The flag of the instance that the next submits belong to, or that is under way.
  Flag next_flag(std::uint32_t id) const { return buckets().next_flag(buckets()[id]); }
  std::uint64_t instances(std::uint32_t id) const { return buckets()[id].instances; }
  bool is_published(std::uint32_t id) const { return buckets()[id].published; }
  /// All that the ranks launch has one order, that of the log.
  bool is_ordered() const { return ordered_; }
  /// In an ordered group: the log has launched the instance under way.
  bool is_launched(std::uint32_t id) const { return buckets()[id].launched > buckets()[id].instances; }
  Stage stage(std::uint32_t id) const { return buckets()[id].stage; }
  /// In drain: an instance is under way that all have published, and all will finish.
  bool is_decided(std::uint32_t id) const { return buckets().is_decided(buckets()[id]); }
  bool is_half_full(std::uint32_t id) const { return buckets()[id].fill > 0 && !buckets()[id].published; }
  /// The name of the request in this place: the bucket's own, or that of an unnamed call. Requires: one is in it.
  const std::string& request_in(std::uint32_t id, std::uint32_t place) const {
    return requests_.table()[buckets()[id].names[place]].request_name();
  }
  /// Unnamed calls wait behind others for a place.
  bool has_queued() const { return requests_.queues().size() > 0; }
  /// For a place of this bucket.
  bool has_queued(std::uint32_t id) const { return requests_.has_queued(id); }
  /// Names of the bucket that have not been submitted for the instance under way.
  std::vector<std::string> missing(std::uint32_t id) const { return requests_.missing(id); }

  Lane lane(const std::string& name) const;
  std::size_t owed(const std::string& name) const;
  /// Names in use or in a bucket.
  std::size_t names_known() const { return requests_.table().names(); }
  /// Requests that wait for the coordinator.
  bool is_waiting() const { return requests_.table().is_waiting(); }
  bool has_outstanding() const { return requests_.has_outstanding(); }
  bool has_joined() const { return join_ != Wish::no; }
  /// The earliest of those that wait for the coordinator or for the end of a break; kNever if none has one.
  Nanoseconds next_deadline() const;
  /// The same of the unnamed calls that wait for a place.
  Nanoseconds next_queued_deadline() const { return requests_.queues().next_deadline(); }
  /// A request that the coordinator has not answered `grace` after its deadline, if there is one.
  std::optional<std::string> overdue(Nanoseconds now, Nanoseconds grace) const {
    return requests_.table().overdue(now, grace);
  }
  bool all_left() const { return all_left_; }
  bool self_left() const { return has_left(own_); }
  /// It was read in the log that this member has.
  bool has_left(int member) const { return left_[static_cast<std::size_t>(member)]; }
  /// Ok, or why nothing can be submitted any more.
  const Status& closed() const { return closed_; }

 private:
  /// Join and leave: asked for, waiting for the break to end, said to the coordinator.
  enum class Wish : std::uint8_t { no, called, wanted, sent };

  BucketProgress& buckets() { return requests_.buckets(); }
  const BucketProgress& buckets() const { return requests_.buckets(); }
  bool in_break() const { return mode_ == Mode::frozen || mode_ == Mode::drain; }
  bool over() const { return mode_ == Mode::failing || mode_ == Mode::failed; }
  bool reads_log() const {
    return mode_ == Mode::negotiate || mode_ == Mode::replay || (mode_ == Mode::frozen && ordered_);
  }
  template <typename S>
  void finish_instance(std::uint32_t id, S& sink);
  Lane submit(std::uint32_t index, Descriptor descriptor, Nanoseconds deadline, Flag copied, Sink& sink);
  Lane submit_slowly(const SubmitPlace& event, Sink& sink);
  Lane submit_call(Submit event, Sink& sink);
  void freeze(Reason reason, std::uint32_t bucket, Sink& sink);
  void drain(bool can_be, Sink& sink);
  void after_instance(const BucketState& bucket, Sink& sink);
  void leave_epoch(Sink& sink);
  void try_join(Sink& sink);
  void store_quiet(Sink& sink);
  void read(control::Message entry, Sink& sink);
  void read_exec(control::ExecEntry entry, Sink& sink);
  void read_error(const control::ErrorEntry& entry, Sink& sink);
  void read_install(const control::InstallEntry& entry, Sink& sink);
  void read_add(const control::AddEntry& entry, Sink& sink);
  void read_launch(const control::LaunchEntry& entry, Sink& sink);
  void read_break(const control::BreakEntry& entry, Sink& sink);
  void read_join_done(const control::JoinDoneEntry& entry, Sink& sink);
  void read_left(const control::LeftEntry& entry, Sink& sink);
  void put_in_force(const std::vector<std::uint32_t>& ids, bool added, Sink& sink);
  void fail_all(const Status& reason, Sink& sink);

  Group group_;
  int own_;
  Mode mode_ = Mode::negotiate;
  OutstandingRequests requests_;
  RefusedCalls refused_;
  std::deque<control::Message> later_;  ///< log entries that came during a break
  std::vector<std::string> missing_;    ///< for END
  Reason reason_ = Reason::none;        ///< of the last freeze
  Wish join_ = Wish::no;
  Wish leave_ = Wish::no;
  RankSet lost_;
  bool quiet_ = false;
  bool ordered_ = false;
  RankSet left_;
  bool all_left_ = false;
  Status closed_;
};

// ---- The hot rows of the table

template <typename S>
Lane Member::step(const SubmitPlace& event, S& sink) {
  const BucketState& bucket = buckets()[event.bucket];
  RequestEntry& entry = requests_.in_place(bucket, event.place);
  if (mode_ != Mode::replay || !bucket.in_force || entry.lane != Lane::none || entry.owes || join_ != Wish::no ||
      !closed_) [[unlikely]] {
    return submit_slowly(event, sink);
  }
  entry.deadline = event.deadline;
  entry.memory_place = event.memory_place;
  requests_.put(event.bucket, event.place, entry, event.copied, sink);
  return Lane::placed;
}

template <typename S>
bool Member::step(const AllPublished& event, S& sink) {
  if (over()) {
    return false;  // nothing new begins
  }
  // In a break too: what all have published needs this rank's slice (Trap::frozen_stops_reducing).
  if (in_break() && broken(Trap::frozen_stops_reducing)) {
    return false;
  }
  if (!buckets().begin_slice(buckets()[event.bucket])) [[unlikely]] {
    sink.bug("all published a bucket that this rank has not, or whose slice it has begun");
    return false;
  }
  return true;
}

template <typename S>
void Member::step(const Reduced& event, S& sink) {
  BucketState& bucket = buckets()[event.bucket];
  if (mode_ == Mode::failed || !buckets().end_slice(bucket)) [[unlikely]] {
    sink.bug("a slice is finished that was not begun");
    return;
  }
  const bool is_over = !bucket.agreed.has_done_words;
  if (mode_ == Mode::failing) {
    if (!buckets().has_slices() && !quiet_) {
      store_quiet(sink);
    }
  } else if (is_over || (mode_ == Mode::drain && broken(Trap::leave_drain_on_own_done))) {
    finish_instance(event.bucket, sink);
  }
}

template <typename S>
void Member::step(const AllDone& event, S& sink) {
  if (over()) {
    return;
  }
  if (buckets()[event.bucket].stage != Stage::reduced) [[unlikely]] {
    sink.bug("all have done a bucket that this rank has not");
    return;
  }
  finish_instance(event.bucket, sink);
}

template <typename S>
void Member::finish_instance(std::uint32_t id, S& sink) {
  requests_.complete(id, sink);
  const BucketState& bucket = buckets()[id];
  if (mode_ != Mode::replay || join_ == Wish::called || bucket.instances == kMaxInstance) [[unlikely]] {
    after_instance(bucket, sink);
  }
  if (has_queued() && mode_ == Mode::replay) [[unlikely]] {
    requests_.place_queued(id, sink);
  }
}

}  // namespace ronde::agreement
