// Sends: the sends of this rank (point_to_point.h), from the offer until the receiver has everything or touches it no
// more.
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
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/p2p/pair_context.h"
#include "engine/p2p/staging_slots.h"

namespace ronde::engine {

/// Under the progress lock.
class Sends {
 public:
  /// As PointToPoint.
  Sends(const PairContext& context, transport::ReachableMemory& memory);

  /// Offers it to the receiver, who may be served.
  void submit(const TicketPtr& ticket, Nanoseconds now);
  Status read(int from, const control::AcceptMessage& message, Nanoseconds now);
  Status read(int from, const control::TakenMessage& message, Nanoseconds now);
  /// The receiver has given it up, for this reason, or answers that it has forgotten it.
  void read_give_up(int from, std::uint64_t id, const Status& reason);
  /// Sends pieces, as far as there is room, and takes their bytes from the budget; true if anything moved.
  bool advance(std::size_t& budget, Nanoseconds now);
  /// Ends what has had its time.
  void check_time(Nanoseconds now);
  /// No deadline lies before it.
  Nanoseconds next_deadline() const { return next_look_; }

  /// False if it is none of these.
  bool cancel(const Ticket& ticket, const Status& reason);
  /// What nobody has taken ends with this reason, once its receiver has answered.
  void close(const Status& reason);
  /// The same of what goes to this peer.
  void part_with(int peer, const Status& reason);
  /// What goes to this peer is over, with this reason: it has gone.
  void end_with(int peer, const Status& reason);
  /// Forgets everything; the tickets that are under way are the caller's to end.
  void abandon(std::vector<TicketPtr>& tickets);

  /// Bytes are under way, or a receiver has yet to say whether it has them.
  bool is_moving() const { return accepted_ > 0 || asked_ > 0; }
  bool is_empty() const { return outgoing_.empty(); }
  bool has_business_with(int peer) const;

 private:
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
  enum class Ending { now, when_answered };

  bool send_pieces(std::uint64_t id, Outgoing& outgoing, std::size_t& budget, Nanoseconds now);
  bool send_piece(std::uint64_t id, Outgoing& outgoing);
  void forget(std::uint64_t id, const Status& outcome);
  void forget_given_up(std::uint64_t id, const Status& reason);
  void give_up(std::uint64_t id, const Status& reason, Ending ending);
  void give_up_unaccepted(const Status& reason, const std::function<bool(const Outgoing&)>& concerned);
  Nanoseconds until(Nanoseconds now, const Ticket& ticket);

  const PairContext& context_;
  transport::ReachableMemory& memory_;
  const std::size_t carried_bytes_;  ///< of a piece that goes in its message, at most
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Outgoing> outgoing_;  ///< by number
  std::size_t accepted_ = 0;                    ///< of outgoing_; none that is given up
  std::size_t asked_ = 0;                       ///< of outgoing_: given up, and a ticket waits for the answer
  std::vector<StagingSlots> staging_;           ///< by receiver
  Nanoseconds next_look_ = kNever;
};

}  // namespace ronde::engine
