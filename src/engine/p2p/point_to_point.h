// PointToPoint: this rank's sends and recvs. They concern two ranks only, so they pass by agreement and its log: the
// two tell each other what they need by control messages, which come in order per pair of ranks.
//
//     sender                                      receiver
//     OFFER id, tag, type, shape   ------------>  kept until a recv of that tag, from that rank or any, is posted; the
//       (with the data, if it is short)           recvs of a tag take the offers of a rank in the order of the sends
//     <------------------------------- ACCEPT id  the data was not in the offer, and there is memory for it now
//     PIECE id, where it lies      ------------>  copied into the recv's tensor
//     <------------------------ TAKEN id, so far  the sender may use that memory again. All of it: both are over
//     GIVE UP id   <--------------------------->  a time limit, a shutdown, or types that do not fit: both fail. The
//                                                 receiver answers the sender's with its own
//
// A piece lies in a staging slot of the sender's, which the receiver reaches, so long messages are copied twice and the
// links carry a line for each 128 KiB. Without slots the piece is in the message itself. Slots belong to a receiver:
// one that is stopped keeps only its own sends waiting.
//
// A send is over when the receiver has the data, never before: two ranks that both block in send() wait for each other.
// One of them must recv first, or both use the asynchronous forms.
//
// Why nothing waits for ever that could go on: whoever drives the engine reads the links and calls advance() in every
// step, whatever else is under way, so ACCEPT, PIECE and TAKEN are answered while collectives wait, and the other way
// round; no collective needs a send, no send a collective. A recv waits for its offer only, a piece for the TAKEN of
// the one that had its slot, whose receiver has its memory and owes nobody anything first. An offer without a recv, and
// a recv without an offer, have a time limit.
//
// Two halves: sends.h and recvs.h. Here is what concerns both: who has left, and the end.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/membership/group_members.h"
#include "engine/p2p/pair_context.h"
#include "engine/p2p/recvs.h"
#include "engine/p2p/sends.h"
#include "transport/reachable_memory.h"

namespace ronde::engine {

/// Under the progress lock.
class PointToPoint {
 public:
  /// `group`: the members, by their numbers. `finish` ends a ticket. All of them must outlive this.
  PointToPoint(const Group& group, transport::ReachableMemory& memory, control::Control& control,
               const transport::Peers& peers, std::function<void(const TicketPtr&, Status)> finish);

  /// Requires: is_pairwise(kind), validate() has passed it.
  void submit(const TicketPtr& ticket, Nanoseconds now);
  /// Takes the message if it is one of the five kinds, else none. INTERNAL if it cannot be: the peer's memory is
  /// damaged.
  std::optional<Status> read(int from, control::Message& message, Nanoseconds now);
  /// Copies pieces, at most 1 MB of them; true if anything moved.
  bool advance(Nanoseconds now);
  /// Ends what has had its time. Bytes that move begin it anew.
  void check_time(Nanoseconds now);
  /// When check_time() must be called, or earlier.
  Nanoseconds next_deadline() const { return std::min(sends_.next_deadline(), recvs_.next_deadline()); }
  /// The caller does not want its end: the peer is told. Nothing if it is not under way here, or being sent already.
  void cancel(const Ticket& ticket);

  /// Both sides of something here have met, and it is not over; or a peer has yet to say whether they have.
  bool is_moving() const { return recvs_.is_moving() || sends_.is_moving(); }
  /// What has not met its other side never will: it ends with this reason, and so does what is submitted later. What
  /// has met is finished.
  void close(const Status& reason);
  /// The same with this peer alone, which leaves: what others have to do with each other goes on. A recv from any rank
  /// ends once all peers have left. Without effect from the second time on.
  void part_with(int peer, const Status& reason);
  /// What this peer has a part in ends with this reason, and what is submitted later for it: it has gone.
  void end_with(int peer, const Status& reason);
  /// part_with() or end_with() was called for it.
  bool has_parted_with(int peer) const { return !gone_[static_cast<std::size_t>(peer)]; }
  bool is_empty() const { return sends_.is_empty() && recvs_.is_empty(); }
  bool has_business_with(int peer) const { return sends_.has_business_with(peer) || recvs_.has_business_with(peer); }
  /// Called when there was nothing to read: ends what those that have gone have a part in, and will not do.
  /// `has_left`: agreement says so. True if it should be called again, when all that a member which has gone did say
  /// has been read.
  bool look_who_is_gone(const GroupMembers& members, const std::function<bool(int)>& has_left);
  /// Forgets everything; the tickets are the caller's to end. Nothing of theirs is touched afterwards.
  std::vector<TicketPtr> abandon();

 private:
  Status why_in_vain(const Request& request) const;
  Status read_offer(int from, control::OfferMessage message, Nanoseconds now);
  Status read_give_up(int from, const control::GiveUpMessage& message);

  const PairContext context_;
  Sends sends_;
  Recvs recvs_;
  std::vector<Status> gone_;  ///< by peer: an error once it has left
  /// By peer: seen to have gone, its last messages perhaps not read yet.
  std::vector<bool> may_have_said_more_;
  Status closed_;
};

}  // namespace ronde::engine
