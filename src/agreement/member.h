// Member: the half of agreement that lives in every rank, one per group: the state machine of docs/agreement.md. Its
// transitions are step(event, sink), one overload per row of the table; each looks at the mode (the columns) and calls
// the sink. No clock, no thread, no memory but its own.
//
// How the engine uses it
// ----------------------
// One small lock, the gate, around every call, those that only look included. Any thread submits; everything else comes
// from the thread that holds the progress lock. Nothing here blocks, calls back or sleeps.
//
//  submitting   A slot that knows its (bucket, place) (look it up by where() when sink.install() says so, forget it
//  when
//               the slot's request changes): copy the data in, outside the gate, for the flag next_flag(bucket) (which
//               changes at install() and complete() only: keep it in an atomic of the engine's own), then
//               step(SubmitPlace{..., copied = that flag}). If the epoch has changed meanwhile the member says
//               copy_in() again, or sends the request into learning. A bucket that is not in force any more is no error
//               either: the request goes by its name. Everything else: step(Submit). Requires that the name's previous
//               request is over.
//  polling      For every bucket with is_published(): all pub >= its flag and stage none: step(AllPublished); own slice
//               finished: step(Reduced); stage reduced and all done words >= flag: step(AllDone) (not for inline).
//               frozen words: one equal to epoch() in replay: step(PeerFrozen); all equal to epoch() in mode frozen (a
//               rank that has left counts as frozen): read all pub words, then step(AllFrozen) with the minimum.
//  log          step(LogRead) with every entry as it comes; what must not be read during a break is kept here.
//  timers       half full buckets (is_half_full), full ones that wait for peers, deadlines: step(LocalReason). In mode
//               learn the coordinator keeps the limits.
//  deaths       stop the learning lane's work, then step(Lost); when every survivor's quiet word says as much (or the
//               limit has passed) step(AllQuiet).
//
// Hot events (SubmitPlace, AllPublished, Reduced, AllDone) are inline, allocate nothing and look up no name; with a
// final sink their calls are direct.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "agreement/sink.h"
#include "types/bucket.h"
#include "types/group.h"

namespace ronde::agreement {

// ---- Events

/// A request whose place is known. Requires: its descriptor fits that member.
struct SubmitPlace {
  std::uint32_t bucket = 0;
  std::uint32_t place = 0;
  Flag copied = 0;  ///< the flag for which its data has been copied in; 0: not yet
  Nanoseconds deadline = kNever;
  HeapPlace heap_place;
};
struct Submit {
  std::string name;
  Descriptor descriptor;
  Nanoseconds deadline = kNever;
  /// Of an unnamed call: what it is planned under; `name` is then its number and never comes again. Calls are told in
  /// the order in which the program makes them.
  std::string planning_name = {};
};
/// This rank will not make the unnamed call of this name: its arguments are refused. The coordinator is told besides.
struct Refused {
  std::string name;
};
/// All ranks have published the instance that this rank has published. step() says whether this rank's slice of it is
/// reduced now (of an inline bucket all payloads are read); step(Reduced) comes when it is.
struct AllPublished {
  std::uint32_t bucket = 0;
};
/// This rank's slice of it is finished, and done (staged: mid; ordered: its own; inline: none) stored =
/// next_flag(bucket) (release). A rank that fails may have given it up, and has stored nothing then.
struct Reduced {
  std::uint32_t bucket = 0;
};
/// All ranks have done it.
struct AllDone {
  std::uint32_t bucket = 0;
};
/// All ranks have published the instance, and not the same unnamed calls: nobody reduces it.
struct Voided {
  std::uint32_t bucket = 0;
};
struct PeerFrozen {
  std::uint32_t epoch = 0;
};
/// Every rank is frozen in this rank's epoch; read after that: the smallest instance published, by bucket id (0 beyond
/// the end).
struct AllFrozen {
  std::span<const std::uint64_t> published;
};
/// A reason of this rank's own to break.
struct LocalReason {
  Reason reason = Reason::abort;
  std::uint32_t bucket = 0;  ///< stall: which one stays half full
};
struct LogRead {
  control::Message entry;
};
/// What execute() began is over for this name, well or not.
struct Executed {
  const std::string& name;
};
struct JoinCalled {};
/// The engine shuts down: LEAVE goes out once this rank is out of the epoch.
struct LeaveCalled {};
struct Lost {
  const RankSet& ranks;
};
/// Every rank that is not lost is quiet about all of `lost`.
struct AllQuiet {
  Status reason;
};
/// The engine gives this group up: every request ends with this.
struct Close {
  Status reason;
};

/// Where a request is.
enum class Lane : std::uint8_t {
  none,
  sent,       ///< with the coordinator
  placed,     ///< in its bucket
  held,       ///< waits for the end of a break
  queued,     ///< only as what a submit came to: an unnamed call behind another in its place
  executing,  ///< answered, under way in the learning lane
  failed,     ///< only as what a submit came to
};

/// How far a published instance is.
enum class Stage : std::uint8_t { none, reducing, reduced };

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
  std::uint32_t epoch() const { return epoch_; }
  std::uint64_t label() const { return label_; }
  /// Log entries read.
  std::uint64_t position() const { return position_; }
  const RankSet& lost() const { return lost_; }
  Reason reason() const { return reason_; }

  struct Where {
    std::uint32_t bucket = 0;
    std::uint32_t place = 0;
  };
  /// Where this name is planned in the epoch in force; in mode learn nowhere.
  std::optional<Where> where(const std::string& name) const;
  /// Unnamed calls of this planning name have places in the epoch in force.
  bool is_planned(const std::string& planning_name) const { return turns_.contains(planning_name); }
  /// The buckets in force, in the order in which they came into force; also during a break.
  const std::vector<std::uint32_t>& in_force() const { return in_force_; }
  std::size_t bucket_count() const { return buckets_.size(); }
  /// Stays where it is.
  const Bucket& bucket(std::uint32_t id) const { return buckets_[id].agreed; }
  /// The flag of the instance that the next submits belong to, or that is under way.
  Flag next_flag(std::uint32_t id) const { return make_flag(epoch_, buckets_[id].instances + 1); }
  std::uint64_t instances(std::uint32_t id) const { return buckets_[id].instances; }
  bool is_published(std::uint32_t id) const { return buckets_[id].published; }
  Stage stage(std::uint32_t id) const { return buckets_[id].stage; }
  /// In drain: an instance is under way that all have published, and all will finish.
  bool is_decided(std::uint32_t id) const { return buckets_[id].instances < buckets_[id].decided; }
  bool is_half_full(std::uint32_t id) const { return buckets_[id].fill > 0 && !buckets_[id].published; }
  /// The name of the request in this place: the bucket's own, or that of an unnamed call. Requires: one is in it.
  const std::string& request_in(std::uint32_t id, std::uint32_t place) const {
    const Name& name = names_[buckets_[id].names[place]];
    return name.call.empty() ? name.text : name.call;
  }
  /// Unnamed calls wait behind others for a place.
  bool has_queued() const { return queued_ > 0; }
  /// For a place of this bucket.
  bool has_queued(std::uint32_t id) const;
  /// Names of the bucket that have not been submitted for the instance under way.
  std::vector<std::string> missing(std::uint32_t id) const;

  Lane lane(const std::string& name) const;
  std::size_t owed(const std::string& name) const;
  /// Names in use or in a bucket.
  std::size_t names_known() const { return index_of_.size(); }
  /// Requests that wait for the coordinator.
  bool is_waiting() const { return sent_ > 0; }
  bool has_outstanding() const { return outstanding_ > 0; }
  bool has_joined() const { return join_ != Wish::no; }
  /// The earliest of those that wait for the coordinator or for the end of a break; kNever if none has one.
  Nanoseconds next_deadline() const;
  /// The same of the unnamed calls that wait for a place.
  Nanoseconds next_queued_deadline() const;
  /// A request that the coordinator has not answered `grace` after its deadline, if there is one.
  std::optional<std::string> overdue(Nanoseconds now, Nanoseconds grace) const;
  bool all_left() const { return all_left_; }
  bool self_left() const { return has_left(own_); }
  /// It was read in the log that this member has.
  bool has_left(int member) const { return left_[static_cast<std::size_t>(member)]; }
  /// Ok, or why nothing can be submitted any more.
  const Status& closed() const { return closed_; }

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  static constexpr std::uint64_t kFirstPatience = 64;
  /// Calls of a planning name that are looked at, in units of `patience_`: enough for a quarter of them to exhaust it.
  static constexpr std::uint64_t kCrowdedWindow = 8;

  /// Join and leave: asked for, waiting for the break to end, said to the coordinator.
  enum class Wish : std::uint8_t { no, called, wanted, sent };

  /// What a request that is replayed needs of it comes first, in one cache line: there may be thousands in a step.
  struct alignas(64) Name {
    Lane lane = Lane::none;
    bool owes = false;                ///< `owed` is not empty; in step with it by the three functions below
    std::uint32_t kept = 0;           ///< buckets that refer to it
    std::uint32_t bucket = kNowhere;  ///< in force, kNowhere if in none
    std::uint32_t place = 0;
    Nanoseconds deadline = kNever;
    HeapPlace heap_place;
    std::string text;
    std::string call;           ///< of a place of unnamed calls: the one that is in it
    std::uint64_t order = 0;    ///< of that call, or of this one, among this rank's
    Descriptor descriptor;      ///< of a request that is sent or held; of a placed one it is the bucket's
    std::string planning_name;  ///< of an unnamed call, or of such a place
    std::deque<Status> owed;    ///< one for each error that other ranks saw and this rank has yet to

    void owe(Status error) {
      owed.push_back(std::move(error));
      owes = true;
    }
    Status pay() {
      Status error = std::move(owed.front());
      owed.pop_front();
      owes = !owed.empty();
      return error;
    }
    void forgive() {
      owed.clear();
      owes = false;
    }
  };

  /// An unnamed call behind another in its place.
  struct Call {
    std::string name;
    Descriptor descriptor;
    Nanoseconds deadline = kNever;
    std::uint64_t order = 0;
  };

  /// The places that the calls of a planning name take one after the other.
  struct Turns {
    std::vector<std::uint32_t> places;  ///< indices of names_
    std::uint64_t next = 0;
    std::uint64_t recent = 0;  ///< of the last calls: how many are counted
    std::uint64_t queued = 0;  ///< of these, those that had to wait for a place
  };

  struct Place {
    Bucket agreed;
    std::vector<std::uint32_t> names;  ///< by place
    std::uint32_t fill = 0;
    std::uint64_t instances = 0;  ///< completed here in this epoch
    std::uint64_t decided = 0;    ///< in drain: how many will be
    bool in_force = false;
    bool published = false;
    bool has_unnamed = false;
    Stage stage = Stage::none;
  };

  std::uint32_t intern(const std::string& name);
  void drop_if_idle(std::uint32_t index);
  bool in_break() const { return mode_ == Mode::frozen || mode_ == Mode::drain; }
  bool over() const { return mode_ == Mode::failing || mode_ == Mode::failed; }
  bool reads_log() const { return mode_ == Mode::learn || mode_ == Mode::replay; }
  template <typename S>
  void put(std::uint32_t id, std::uint32_t place, Name& name, Flag copied, S& sink);
  template <typename S>
  void finish_instance(std::uint32_t id, S& sink);
  Lane submit(std::uint32_t index, Descriptor descriptor, Nanoseconds deadline, Flag copied, Sink& sink);
  Lane submit_slowly(const SubmitPlace& event, Sink& sink);
  Lane submit_call(Submit event, Sink& sink);
  template <typename S>
  void put_call(std::uint32_t at, Call& call, S& sink);
  bool place_call(Turns& turns, Call& call, Sink& sink, Lane& lane);
  void note_queued(Turns& turns, Sink& sink);
  void hold_call(Call call, std::uint32_t place);
  void begin_turns(const std::vector<std::uint32_t>& ids);
  void hold_placed(std::uint32_t id, std::uint32_t place);
  void hold_queues();
  void send_held_calls(Sink& sink);
  void start_queued(std::uint32_t id, Sink& sink);
  std::vector<std::uint32_t> calls_sent_for(const std::vector<std::uint32_t>& ids) const;
  void move_calls(const std::vector<std::uint32_t>& ids, Sink& sink);
  void send(Name& name, Sink& sink);
  void count_lane(Name& name, Lane lane);
  void freeze(Reason reason, std::uint32_t bucket, Sink& sink);
  void after_instance(Place& place, Sink& sink);
  void leave_epoch(Sink& sink);
  void try_join(Sink& sink);
  void read(control::Message entry, Sink& sink);
  void forgive_all();
  void read_exec(control::ExecEntry entry, Sink& sink);
  void read_error(const control::ErrorEntry& entry, Sink& sink);
  void read_retire(const control::RetireEntry& entry, Sink& sink);
  void read_prepare(const control::PrepareEntry& entry, Sink& sink);
  void read_install(const control::InstallEntry& entry, Sink& sink);
  void read_add(const control::AddEntry& entry, Sink& sink);
  void read_left(const control::LeftEntry& entry, Sink& sink);
  void put_in_force(const std::vector<std::uint32_t>& ids, bool added, Sink& sink);
  void fail_all(const Status& reason, Sink& sink);

  Group group_;
  int own_;
  Mode mode_ = Mode::learn;
  std::uint32_t epoch_ = 0;                     ///< number of the last INSTALL read
  std::uint64_t label_ = 0;                     ///< INSTALL, ADD and ERROR entries read
  std::uint64_t position_ = 0;                  ///< entries read
  std::deque<std::string> refused_;             ///< the last calls that this rank refused, in their order
  std::unordered_set<std::string> is_refused_;  ///< the same, to be looked up
  std::unordered_map<std::string, std::uint32_t> index_of_;
  std::vector<Name> names_;
  std::vector<std::uint32_t> unused_;  ///< of names_: programs may use names that never come again
  std::deque<Place> buckets_;          ///< by id; stays where it is
  std::vector<std::uint32_t> in_force_;
  std::deque<control::Message> later_;                          ///< log entries that came during a break
  std::vector<std::string> missing_;                            ///< for END
  std::vector<std::string> crowded_;                            ///< for END
  std::uint64_t patience_ = kFirstPatience;                     ///< calls that wait for places before it breaks
  Reason reason_ = Reason::none;                                ///< of the last freeze
  std::size_t sent_ = 0;                                        ///< names in lane sent
  std::size_t outstanding_ = 0;                                 ///< names in any lane but none
  std::unordered_map<std::string, Turns> turns_;                ///< by planning name: its places in force
  std::unordered_map<std::uint32_t, std::deque<Call>> queues_;  ///< by place
  std::vector<std::uint32_t> held_calls_;                       ///< unnamed calls in lane held
  std::size_t queued_ = 0;                                      ///< in all queues
  std::uint64_t calls_ = 0;                                     ///< unnamed calls submitted
  std::size_t undrained_ = 0;                                   ///< in drain: buckets with instances < decided
  std::size_t slices_ = 0;                                      ///< buckets in stage reducing
  Wish join_ = Wish::no;
  Wish leave_ = Wish::no;
  RankSet lost_;
  bool quiet_ = false;
  RankSet left_;
  bool all_left_ = false;
  Status closed_;
};

// ---- The hot rows of the table

template <typename S>
Lane Member::step(const SubmitPlace& event, S& sink) {
  Place& bucket = buckets_[event.bucket];
  Name& name = names_[bucket.names[event.place]];
  if (mode_ != Mode::replay || !bucket.in_force || name.lane != Lane::none || name.owes || join_ != Wish::no ||
      !closed_) [[unlikely]] {
    return submit_slowly(event, sink);
  }
  name.deadline = event.deadline;
  name.heap_place = event.heap_place;
  put(event.bucket, event.place, name, event.copied, sink);
  return Lane::placed;
}

/// Takes the place; publishes if it was the last. This must happen inside the gate: a rank that has frozen must not
/// publish any more, or the ranks decide differently (trap 2).
template <typename S>
void Member::put(std::uint32_t id, std::uint32_t place, Name& name, Flag copied, S& sink) {
  Place& bucket = buckets_[id];
  const Flag flag = next_flag(id);
  name.lane = Lane::placed;
  ++outstanding_;
  if (copied != flag) {
    sink.copy_in(id, place, bucket.instances + 1);
  }
  if (++bucket.fill == bucket.names.size()) {
    bucket.published = true;
    sink.publish(id, flag);
  }
}

template <typename S>
bool Member::step(const AllPublished& event, S& sink) {
  if (over()) {
    return false;  // nothing new begins
  }
  Place& bucket = buckets_[event.bucket];
  if (!bucket.published || bucket.stage != Stage::none) [[unlikely]] {
    sink.bug("all published a bucket that this rank has not, or whose slice it has begun");
    return false;
  }
  // In a break too: what all have published needs this rank's slice (trap 3).
  if (in_break() && broken(Trap::frozen_stops_reducing)) {
    return false;
  }
  bucket.stage = Stage::reducing;
  ++slices_;
  return true;
}

template <typename S>
void Member::step(const Reduced& event, S& sink) {
  Place& bucket = buckets_[event.bucket];
  if (bucket.stage != Stage::reducing || mode_ == Mode::failed) [[unlikely]] {
    sink.bug("a slice is finished that was not begun");
    return;
  }
  bucket.stage = Stage::reduced;
  --slices_;
  const bool inlined = bucket.agreed.kind == BucketKind::inlined;
  if (mode_ == Mode::failing) {
    if (slices_ == 0 && !quiet_) {
      quiet_ = true;
      sink.store_quiet(lost_);
    }
  } else if (inlined || (mode_ == Mode::drain && broken(Trap::leave_drain_on_own_done))) {
    finish_instance(event.bucket, sink);
  }
}

template <typename S>
void Member::step(const AllDone& event, S& sink) {
  if (over()) {
    return;
  }
  const Place& bucket = buckets_[event.bucket];
  if (bucket.stage != Stage::reduced) [[unlikely]] {
    sink.bug("all have done a bucket that this rank has not");
    return;
  }
  finish_instance(event.bucket, sink);
}

template <typename S>
void Member::finish_instance(std::uint32_t id, S& sink) {
  Place& bucket = buckets_[id];
  ++bucket.instances;
  bucket.fill = 0;
  bucket.published = false;
  bucket.stage = Stage::none;
  for (std::uint32_t index : bucket.names) {
    if (names_[index].lane != Lane::placed) [[unlikely]] {
      sink.bug("an instance ends with a request that is not in its place");
    }
    names_[index].lane = Lane::none;
  }
  outstanding_ -= bucket.names.size();
  sink.complete(id, bucket.instances);
  if (bucket.has_unnamed) {
    for (std::uint32_t index : bucket.names) {
      names_[index].call.clear();
    }
  }
  if (mode_ != Mode::replay || join_ == Wish::called || bucket.instances == kMaxInstance) [[unlikely]] {
    after_instance(bucket, sink);
  }
  if (queued_ > 0) [[unlikely]] {
    start_queued(id, sink);
  }
}

}  // namespace ronde::agreement
