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
// A piece lies in a staging slot of the sender's heap, which the receiver has mapped, so long messages are copied twice
// and the rings carry a line for each 128 KiB. Without a heap the piece is in the message itself. Slots belong to a
// receiver: one that is stopped keeps only its own sends waiting.
//
// A send is over when the receiver has the data, never before: two ranks that both block in send() wait for each other.
// One of them must recv first, or both use the asynchronous forms.
//
// Why nothing waits for ever that could go on: whoever drives the engine reads the rings and calls advance() in every
// step, whatever else is under way, so ACCEPT, PIECE and TAKEN are answered while collectives wait, and the other way
// round; no collective needs a send, no send a collective. A recv waits for its offer only, a piece for the TAKEN of
// the one that had its slot, whose receiver has its memory and owes nobody anything first. An offer without a recv, and
// a recv without an offer, have a time limit.
//
// Who gives up a send does not know yet whether the receiver has all of it, or still reads a slot, in which it must not
// find another message's bytes. So the send's record stays, with its slots, until the receiver has answered: with GIVE
// UP (it has forgotten the message), or with a TAKEN of everything that crossed. A send whose time is up fails at once
// nevertheless; one that is given up because the group ends waits for the answer, and may have been received.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/control.h"
#include "engine/shared_heap.h"
#include "engine/ticket.h"
#include "transport/arena.h"
#include "transport/peers.h"

namespace ronde::engine {

/// Under the progress lock.
class PointToPoint {
 public:
  /// `group`: the members, by their numbers. `arena`: where they share memory, by the same numbers; null: they share
  /// none. `finish` ends a ticket. All of them must outlive this.
  PointToPoint(const Group& group, transport::HostArena* arena, SharedHeap& heap, control::Control& control,
               const transport::Peers& peers, std::function<void(const TicketPtr&, Status)> finish)
      : group_(group),
        arena_(arena),
        peers_(peers),
        heap_(heap),
        control_(control),
        finish_(std::move(finish)),
        gone_(static_cast<std::size_t>(peers.size())),
        staging_(static_cast<std::size_t>(peers.size())) {}

  /// Requires: is_pairwise(kind), validate() has passed it.
  void submit(const TicketPtr& ticket, Nanoseconds now);
  /// A message of the five kinds. INTERNAL if it cannot be: the peer's memory is damaged.
  Status read(int from, control::OfferMessage message, Nanoseconds now);
  Status read(int from, const control::AcceptMessage& message, Nanoseconds now);
  Status read(int from, control::PieceMessage message, Nanoseconds now);
  Status read(int from, const control::TakenMessage& message, Nanoseconds now);
  Status read(int from, const control::GiveUpMessage& message, Nanoseconds now);
  /// Copies pieces, at most 1 MB of them; true if anything moved.
  bool advance(Nanoseconds now);
  /// Ends what has had its time. Bytes that move begin it anew.
  void check_time(Nanoseconds now);
  /// When check_time() must be called, or earlier.
  /// The caller does not want its end: the peer is told. Nothing if it is not under way here, or being sent already.
  void cancel(const Ticket& ticket);
  Nanoseconds next_deadline() const { return next_look_; }

  /// Both sides of something here have met, and it is not over; or a peer has yet to say whether they have.
  bool is_moving() const { return !incoming_.empty() || accepted_ > 0 || asked_ > 0; }
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
  bool is_empty() const { return outgoing_.empty() && incoming_.empty() && waiting_.empty(); }
  bool has_business_with(int peer) const;
  /// Forgets everything; the tickets are the caller's to end. Nothing of theirs is touched afterwards.
  std::vector<TicketPtr> abandon();

 private:
  /// A send of this rank, by its number.
  struct Outgoing {
    TicketPtr ticket;  ///< null: it has failed, and only its slots are held
    int to = 0;
    std::size_t bytes = 0;
    bool accepted = false;
    bool given_up = false;  ///< said to the receiver, which has not answered
    Status reason = {};     ///< given_up: what the ticket ends with unless it was received
    std::size_t sent = 0;   ///< bytes told in pieces
    std::size_t taken = 0;
    Nanoseconds deadline = kNever;
    std::deque<std::pair<std::size_t, int>> slots = {};  ///< in order: up to which byte `taken` must come, and the slot
  };
  /// An offer, and once a recv has it the recv's ticket.
  struct Incoming {
    TicketPtr ticket;
    control::OfferMessage offer;
    int from = 0;
    std::size_t received = 0;
    Nanoseconds deadline = kNever;
    std::deque<control::PieceMessage> pieces = {};  ///< not copied yet
  };
  struct Posted {
    TicketPtr ticket;
    Nanoseconds deadline = kNever;
  };
  /// What waits under one tag of one group; of the two never a pair that fits.
  struct Waiting {
    std::deque<Posted> posted = {};
    std::deque<Incoming> offers = {};
  };
  using Tag = std::pair<std::int32_t, std::int32_t>;  ///< group, tag
  using Key = std::pair<int, std::uint64_t>;          ///< sender, its number
  /// Slots for what goes to one peer.
  struct Staging {
    std::shared_ptr<void> memory;
    std::int64_t place = kNoOffset;  ///< in the heap
    std::vector<int> free = {};
    bool refused = false;  ///< there is no heap: pieces go in messages
  };

  int rank_of(int member) const { return group_.ranks[static_cast<std::size_t>(member)]; }
  bool takes_from(const Ticket& recv, int from) const;
  Status damaged(int from, const std::string& what) const;
  void send_offer(const TicketPtr& ticket, Nanoseconds now);
  void match(Incoming incoming, const TicketPtr& ticket, Nanoseconds now);
  bool send_pieces(std::uint64_t id, Outgoing& outgoing, std::size_t& budget, Nanoseconds now);
  bool send_piece(std::uint64_t id, Outgoing& outgoing);
  Status take_pieces(const Key& key, Incoming& incoming, std::size_t& budget, Nanoseconds now);
  Status take(const Key& key, Incoming& incoming, Nanoseconds now);
  void received(const Key& key, Incoming& incoming);
  bool open(Staging& staging);
  void forget(std::uint64_t id, const Status& outcome);
  control::GiveUpMessage farewell(std::uint64_t id, bool by_sender, const Ticket& ticket, const Status& reason) const;
  enum class Ending { now, when_answered };
  void give_up_send(std::uint64_t id, const Status& reason, Ending ending);
  template <typename Concerned>
  void give_up_unaccepted(const Status& reason, const Concerned& concerned);
  Status why_in_vain(const Request& request) const;
  void refuse(const Incoming& incoming, const Status& reason);
  void give_up_recv(const Key& key, const Status& reason);
  Status late(const Ticket& ticket) const;
  Nanoseconds until(Nanoseconds now, const Ticket& ticket);
  void forget_empty();
  Nanoseconds earliest() const;

  const Group& group_;
  transport::HostArena* arena_;
  const transport::Peers& peers_;
  SharedHeap& heap_;
  control::Control& control_;
  std::function<void(const TicketPtr&, Status)> finish_;
  std::vector<Status> gone_;  ///< by peer: an error once it has left
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Outgoing> outgoing_;
  std::size_t accepted_ = 0;          ///< of outgoing_; none that is given up
  std::size_t asked_ = 0;             ///< of outgoing_: given up, and a ticket waits for the answer
  std::map<Key, Incoming> incoming_;  ///< that have a recv
  std::map<Tag, Waiting> waiting_;
  std::vector<Staging> staging_;    ///< by receiver
  Nanoseconds next_look_ = kNever;  ///< no deadline lies before it
  Status closed_;
};

}  // namespace ronde::engine
