// How sends and recvs end other than well: by a limit, a shutdown, a rank that has left.
#include <algorithm>
#include <utility>

#include "engine/point_to_point.h"

namespace ronde::engine {

Status PointToPoint::read(int from, const control::GiveUpMessage& message, Nanoseconds) {
  Status status = Status::error(message.code, message.text);
  if (message.rank >= 0) {
    status = status.with_rank(message.rank);
  }
  if (!message.by_sender) {
    const auto found = outgoing_.find(message.id);
    if (found != outgoing_.end() && found->second.to == from) {
      const Outgoing& outgoing = found->second;
      const Status reason = outgoing.given_up ? outgoing.reason : status;
      forget(message.id, outgoing.ticket ? reason.with_tensor(outgoing.ticket->name()) : reason);
    }
    return {};
  }
  // What it does not know it has received, refused or given up itself: it has said so.
  control::GiveUpMessage answer = message;
  answer.by_sender = false;
  if (const auto found = incoming_.find({from, message.id}); found != incoming_.end()) {
    const TicketPtr ticket = found->second.ticket;
    incoming_.erase(found);
    control_.send(from, {group_.id, std::move(answer)});
    finish_(ticket, status.with_tensor(ticket->name()));
    return {};
  }
  for (auto& [tag, waiting] : waiting_) {
    if (std::erase_if(waiting.offers, [&](const Incoming& incoming) {
          return incoming.from == from && incoming.offer.id == message.id;
        }) != 0) {
      control_.send(from, {group_.id, answer});
    }
  }
  forget_empty();
  return {};
}

void PointToPoint::forget_empty() {
  std::erase_if(waiting_, [](const auto& each) { return each.second.posted.empty() && each.second.offers.empty(); });
}

control::GiveUpMessage PointToPoint::farewell(std::uint64_t id, bool by_sender, const Ticket& ticket,
                                              const Status& reason) const {
  const std::string what = std::string(op_name(ticket.request().kind)) + " '" + ticket.name() + "'";
  const int own = rank_of(peers_.self());
  const std::string rank = "rank " + std::to_string(own);
  if (reason.code() == Code::timed_out) {
    return {id, by_sender, Code::timed_out, "Timed out: " + rank + " gave up its " + what, own};
  }
  if (reason.code() == Code::cancelled && reason.failed_rank() == own) {
    return {id, by_sender, Code::cancelled, rank + " has cancelled its " + what, own};
  }
  if (reason.code() == Code::cancelled) {
    return {id, by_sender, Code::peer_left,
            rank + " has left the job (it shut down or exited) with its " + what + " unfinished", own};
  }
  return {id, by_sender, reason.code(), reason.message(), reason.failed_rank()};  // of another rank's doing
}

/// Says so to the receiver, whose answer ends the record.
void PointToPoint::give_up_send(std::uint64_t id, const Status& reason, Ending ending) {
  Outgoing& outgoing = outgoing_.at(id);
  const Status outcome = reason.with_tensor(outgoing.ticket->name());
  if (!outgoing.given_up) {
    control_.send(outgoing.to, {group_.id, farewell(id, true, *outgoing.ticket, reason)});
    accepted_ -= outgoing.accepted ? 1 : 0;
    outgoing.accepted = false;
    outgoing.given_up = true;
    ++asked_;
  }
  outgoing.reason = outcome;
  if (ending == Ending::now) {
    --asked_;
    outgoing.deadline = kNever;
    finish_(std::exchange(outgoing.ticket, nullptr), outcome);
  }
}

/// An offer that nobody here will ever take.
void PointToPoint::refuse(const Incoming& incoming, const Status& reason) {
  control::GiveUpMessage message{incoming.offer.id, false, reason.code(), reason.message(), reason.failed_rank()};
  if (reason.code() == Code::cancelled) {
    message.rank = rank_of(peers_.self());
    message.code = Code::peer_left;
    message.text = "rank " + std::to_string(message.rank) + " has left the job (it shut down or exited)";
  }
  control_.send(incoming.from, {group_.id, std::move(message)});
}

void PointToPoint::give_up_recv(const Key& key, const Status& reason) {
  const TicketPtr ticket = incoming_.at(key).ticket;
  control_.send(key.first, {group_.id, farewell(key.second, false, *ticket, reason)});
  incoming_.erase(key);
  finish_(ticket, reason.with_tensor(ticket->name()));
}

void PointToPoint::cancel(const Ticket& ticket) {
  const int own = rank_of(peers_.self());
  const Status reason = Status::error(Code::cancelled, "'" + ticket.name() + "' was cancelled: the program was " +
                                                           "interrupted in it, or called ronde_cancel")
                            .with_rank(own);
  for (const auto& [id, outgoing] : outgoing_) {
    if (outgoing.ticket.get() == &ticket) {
      return outgoing.given_up ? void() : give_up_send(id, reason, Ending::when_answered);
    }
  }
  for (const auto& [key, incoming] : incoming_) {
    if (incoming.ticket.get() == &ticket) {
      return give_up_recv(Key(key), reason);
    }
  }
  for (auto& [tag, waiting] : waiting_) {
    for (auto each = waiting.posted.begin(); each != waiting.posted.end(); ++each) {
      if (each->ticket.get() == &ticket) {
        const TicketPtr posted = each->ticket;
        waiting.posted.erase(each);
        forget_empty();
        return finish_(posted, reason.with_tensor(posted->name()));
      }
    }
  }
}

void PointToPoint::close(const Status& reason) {
  closed_ = reason;
  give_up_unaccepted(reason, [](const Outgoing&) { return true; });
  const std::map<Tag, Waiting> waiting = std::exchange(waiting_, {});
  for (const auto& [tag, each] : waiting) {
    std::for_each(each.offers.begin(), each.offers.end(), [&](const Incoming& incoming) { refuse(incoming, reason); });
    for (const Posted& posted : each.posted) {
      finish_(posted.ticket, reason.with_tensor(posted.ticket->name()));
    }
  }
}

/// Of the sends that nobody has taken those that are `concerned`.
template <typename Concerned>
void PointToPoint::give_up_unaccepted(const Status& reason, const Concerned& concerned) {
  std::vector<std::uint64_t> sends;
  for (const auto& [id, outgoing] : outgoing_) {
    if (!outgoing.accepted && !outgoing.given_up && concerned(outgoing)) {
      sends.push_back(id);
    }
  }
  for (const std::uint64_t id : sends) {
    give_up_send(id, reason, Ending::when_answered);
  }
}

void PointToPoint::part_with(int peer, const Status& reason) {
  Status& gone = gone_[static_cast<std::size_t>(peer)];
  if (!gone) {
    return;
  }
  gone = reason;
  give_up_unaccepted(reason, [peer](const Outgoing& outgoing) { return outgoing.to == peer; });
  std::vector<TicketPtr> ended;
  for (auto& [tag, waiting] : waiting_) {
    std::erase_if(waiting.offers, [&](const Incoming& incoming) {
      if (incoming.from == peer) {
        refuse(incoming, reason);
      }
      return incoming.from == peer;
    });
    std::erase_if(waiting.posted, [&](const Posted& posted) {
      const bool is_in_vain = !why_in_vain(posted.ticket->request());
      if (is_in_vain) {
        ended.push_back(posted.ticket);
      }
      return is_in_vain;
    });
  }
  forget_empty();
  for (const TicketPtr& ticket : ended) {
    finish_(ticket, reason.with_tensor(ticket->name()));
  }
}

/// An error if the rank that the request speaks of has gone, or for a recv from any rank all others have; which one
/// went last is not known, so it names the first. What waits here already does not come into it.
Status PointToPoint::why_in_vain(const Request& request) const {
  if (request.root != kAnySource) {
    return gone_[static_cast<std::size_t>(group_.index_of(request.root))];
  }
  Status first;
  for (int peer = 0; peer < peers_.size(); ++peer) {
    const Status& gone = gone_[static_cast<std::size_t>(peer)];
    if (peer != peers_.self() && gone) {
      return {};
    }
    first = first ? gone : first;
  }
  return first;
}

bool PointToPoint::has_business_with(int peer) const {
  const auto with_peer = [peer](const auto& entry) { return entry.second.to == peer; };
  const auto from_peer = [peer](const auto& entry) { return entry.second.from == peer; };
  return std::any_of(outgoing_.begin(), outgoing_.end(), with_peer) ||
         std::any_of(incoming_.begin(), incoming_.end(), from_peer);
}

void PointToPoint::end_with(int peer, const Status& reason) {
  std::vector<TicketPtr> ended;
  std::vector<std::uint64_t> sends;
  for (const auto& [id, outgoing] : outgoing_) {
    if (outgoing.to == peer) {
      sends.push_back(id);
    }
  }
  for (const std::uint64_t id : sends) {
    const Outgoing& outgoing = outgoing_.at(id);
    const Status outcome = outgoing.given_up ? outgoing.reason : reason;
    forget(id, outgoing.ticket ? outcome.with_tensor(outgoing.ticket->name()) : outcome);
  }
  std::erase_if(incoming_, [&](const auto& entry) {
    if (entry.second.from == peer) {
      ended.push_back(entry.second.ticket);
    }
    return entry.second.from == peer;
  });
  for (const TicketPtr& ticket : ended) {
    finish_(ticket, reason.with_tensor(ticket->name()));
  }
  part_with(peer, reason);
}

std::vector<TicketPtr> PointToPoint::abandon() {
  std::vector<TicketPtr> tickets;
  for (const auto& [id, outgoing] : outgoing_) {
    if (outgoing.ticket) {
      tickets.push_back(outgoing.ticket);
    }
  }
  for (const auto& [key, incoming] : incoming_) {
    tickets.push_back(incoming.ticket);
  }
  for (const auto& [tag, waiting] : waiting_) {
    for (const Posted& posted : waiting.posted) {
      tickets.push_back(posted.ticket);
    }
  }
  outgoing_.clear();
  incoming_.clear();
  waiting_.clear();
  accepted_ = asked_ = 0;
  next_look_ = kNever;
  return tickets;
}

}  // namespace ronde::engine
