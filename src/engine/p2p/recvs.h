// Recvs: the recvs of this rank and the offers of other ranks to it (point_to_point.h): how they find each other, and
// how the bytes come in.
//
// Of recvs that wait and offers that wait under one tag there is never a pair that fits: who comes second takes the
// first that fits at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/p2p/pair_context.h"
#include "transport/reachable_memory.h"

namespace ronde::engine {

/// Under the progress lock.
class Recvs {
 public:
  /// As PointToPoint.
  Recvs(const PairContext& context, const transport::ReachableMemory& memory) : context_(context), memory_(memory) {}

  /// Takes an offer, or waits for one.
  void submit(const TicketPtr& ticket, Nanoseconds now);
  /// Whether such an offer can be.
  Status check(int from, const control::OfferMessage& message) const;
  /// Requires: check() has passed it.
  void read(int from, control::OfferMessage message, Nanoseconds now);
  Status read(int from, control::PieceMessage message, Nanoseconds now);
  /// The sender gives it up, and is answered if this rank knows of it. `reason` is what `message` says.
  void read_give_up(int from, const control::GiveUpMessage& message, const Status& reason);
  /// An offer that nobody here will ever take: the sender is told why.
  void refuse(int from, std::uint64_t id, const Status& reason) const;
  /// Copies pieces, and takes their bytes from the budget; true if anything moved.
  bool advance(std::size_t& budget, Nanoseconds now);
  /// Ends what has had its time.
  void check_time(Nanoseconds now);
  /// No deadline lies before it.
  Nanoseconds next_deadline() const { return next_look_; }

  /// False if it is none of these.
  bool cancel(const Ticket& ticket, const Status& reason);
  /// What has not met its other side ends with this reason.
  void close(const Status& reason);
  /// Refuses what this peer has offered and nobody has taken; recvs that wait `in_vain` from now on end.
  void part_with(int peer, const Status& reason, const std::function<bool(const Request&)>& in_vain);
  /// What comes from this peer is over, with this reason: it has gone.
  void end_with(int peer, const Status& reason);
  /// Forgets everything; the tickets that are under way are the caller's to end.
  void abandon(std::vector<TicketPtr>& tickets);

  /// A recv has met its send, and is not over.
  bool is_moving() const { return !incoming_.empty(); }
  bool is_empty() const { return incoming_.empty() && waiting_.empty(); }
  bool has_business_with(int peer) const;

 private:
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
  struct Waiting {
    std::deque<Posted> posted = {};
    std::deque<Incoming> offers = {};
  };
  using Tag = std::pair<std::int32_t, std::int32_t>;  ///< group, tag
  using Key = std::pair<int, std::uint64_t>;          ///< sender, its number

  bool takes_from(const Ticket& recv, int from) const;
  void match(Incoming incoming, const TicketPtr& ticket, Nanoseconds now);
  void received(const Key& key, Incoming& incoming);
  bool copy_pieces(const Key& key, Incoming& incoming, std::size_t& budget, Nanoseconds now);
  void give_up(const Key& key, const Status& reason);
  Nanoseconds until(Nanoseconds now, const Ticket& ticket);
  Nanoseconds earliest() const;
  void forget_empty();

  const PairContext& context_;
  const transport::ReachableMemory& memory_;
  std::map<Key, Incoming> incoming_;  ///< that have a recv
  std::map<Tag, Waiting> waiting_;
  Nanoseconds next_look_ = kNever;
};

}  // namespace ronde::engine
