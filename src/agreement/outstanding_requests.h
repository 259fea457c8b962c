// OutstandingRequests: the requests of this rank that are not over, and the ways that one goes: to the coordinator,
// into its place in a bucket, back from there when an epoch ends without it. When it goes which way the member says,
// whose modes are no affair of this class (member.h).
//
// What is hot is inline, allocates nothing and looks up no name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agreement/bucket_progress.h"
#include "agreement/call_places.h"
#include "agreement/call_queues.h"
#include "agreement/request_table.h"
#include "agreement/sink.h"

namespace ronde::agreement {

class OutstandingRequests {
 public:
  static constexpr std::uint32_t kNowhere = RequestEntry::kNowhere;

  /// `own`: index of this rank in the group.
  explicit OutstandingRequests(int own) : own_(own) {}

  RequestTable& table() { return table_; }
  const RequestTable& table() const { return table_; }
  BucketProgress& buckets() { return buckets_; }
  const BucketProgress& buckets() const { return buckets_; }
  CallPlaces& calls() { return calls_; }
  const CallPlaces& calls() const { return calls_; }
  const CallQueues& queues() const { return queues_; }
  RequestEntry& in_place(const BucketState& bucket, std::uint32_t place) { return table_[bucket.names[place]]; }

  // ---- What this rank has read of the log, which each request says.

  void count_entry() { ++position_; }
  /// INSTALL, ADD or ERROR.
  void count_labelled_entry() { ++label_; }
  std::uint64_t position() const { return position_; }
  std::uint64_t label() const { return label_; }

  // ---- On its way. Requires: the entry is in lane none, and owed no error.

  /// To the coordinator.
  void send(RequestEntry& entry, Sink& sink);
  /// Into its place, which publishes the instance if it was the last. This must happen inside the gate: a rank that has
  /// frozen must not publish any more, or the ranks decide differently (Trap::no_publish_gate).
  template <typename S>
  void put(std::uint32_t id, std::uint32_t place, RequestEntry& entry, Flag copied, S& sink);
  /// Where it belongs: with the coordinator, in its place if `replays`, or held until the epoch is over.
  Lane submit(RequestEntry& entry, Descriptor descriptor, Flag copied, bool replays, Sink& sink);
  /// An unnamed call takes the place whose turn it is, or a position in the queue behind it. Lane none if it does not
  /// fit there: then it takes no turn, on any rank that makes the same call, and `call` is untouched.
  Lane place_call(CallPlaces::Turns& turns, Call& call, Sink& sink);
  /// The instance of this bucket is over, well.
  template <typename S>
  void complete(std::uint32_t id, S& sink);
  /// Its places are free for the calls that wait behind them.
  void place_queued(std::uint32_t id, Sink& sink);
  bool has_queued(std::uint32_t id) const;

  // ---- Buckets come and go.

  /// False if it is not new.
  bool prepare(const Bucket& agreed);
  void retire(std::uint32_t id);
  /// Names have their places here from now on. What is outstanding of them stays where it is.
  void put_in_force(const std::vector<std::uint32_t>& ids);
  /// Requests that are with the coordinator move into their places in these buckets: the coordinator has forgotten
  /// them. False if one did not fit, and is held.
  bool move_into_places(const std::vector<std::uint32_t>& ids, Sink& sink);
  /// What is with the coordinator is sent again: the coordinator has forgotten it.
  void send_again(const std::vector<std::uint32_t>& ids, Sink& sink);
  /// What is in the places of this bucket is held.
  void hold_placed(std::uint32_t id);
  /// No bucket is in force any more. What is in places, in queues and held goes to the coordinator; if `closed` is an
  /// error it fails with that.
  void leave_epoch(const Status& closed, Sink& sink);

  // ---- Ends.

  /// What is with the coordinator fails.
  void fail_sent(const Status& reason, Sink& sink);
  void fail_all(const Status& reason, Sink& sink);

  /// Names of the bucket that have not been submitted for the instance under way.
  std::vector<std::string> missing(std::uint32_t id) const;
  bool has_outstanding() const { return table_.has_outstanding() || queues_.size() > 0; }

 private:
  template <typename S>
  void put_call(std::uint32_t at, Call& call, S& sink);
  void hold_call(Call call, std::uint32_t place);
  void hold_placed(std::uint32_t id, std::uint32_t place);
  void send_held_calls(const Status& closed, Sink& sink);
  std::vector<std::uint32_t> calls_sent_for(const std::vector<std::uint32_t>& ids) const;

  const int own_;
  RequestTable table_;
  BucketProgress buckets_;
  CallPlaces calls_;
  CallQueues queues_;
  std::vector<std::uint32_t> held_calls_;  ///< unnamed calls in lane held
  std::uint64_t label_ = 0;                ///< INSTALL, ADD and ERROR entries read
  std::uint64_t position_ = 0;             ///< entries read
};

template <typename S>
void OutstandingRequests::put(std::uint32_t id, std::uint32_t place, RequestEntry& entry, Flag copied, S& sink) {
  BucketState& bucket = buckets_[id];
  const Flag flag = buckets_.next_flag(bucket);
  table_.place(entry);
  if (copied != flag) {
    sink.copy_in(id, place, bucket.instances + 1);
  }
  if (bucket.take_place()) {
    sink.publish(id, flag);
  }
}

template <typename S>
void OutstandingRequests::complete(std::uint32_t id, S& sink) {
  BucketState& bucket = buckets_[id];
  bucket.end_instance();
  if (!table_.end_placed(bucket.names)) [[unlikely]] {
    sink.bug("an instance ends with a request that is not in its place");
  }
  sink.complete(id, bucket.instances);
  if (bucket.has_unnamed) {
    for (std::uint32_t index : bucket.names) {
      table_[index].call.clear();
    }
  }
}

}  // namespace ronde::agreement
