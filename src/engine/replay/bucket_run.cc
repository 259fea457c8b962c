#include "engine/replay/bucket_run.h"

#include <algorithm>
#include <utility>

namespace ronde::engine {

BucketRun::BucketRun(std::unique_ptr<PersistentCollective> collective, const Bucket& agreed, bool is_ordered)
    : collective_(std::move(collective)),
      tickets_(agreed.members.size()),
      direct_bytes_(agreed.members.front().places.empty() ? 0 : payload_bytes(agreed)),
      has_unnamed_(ronde::has_unnamed(agreed)),
      is_plain_(!has_unnamed_ && !is_ordered) {}

void BucketRun::enter(std::uint32_t epoch) {
  collective_->enter(epoch);
  in_force_ = true;
  patience_.restart();
}

void BucketRun::leave() {
  collective_->cancel();
  in_force_ = false;
  drop_tickets();
}

void BucketRun::copy_in(std::uint32_t place, bool is_first, const Clock& clock) {
  Ticket& ticket = *tickets_[place];
  collective_->bind(place, ticket.request().tensors);
  collective_->copy_in(place);
  ticket.set_alone(tickets_.size() == 1);
  if (is_first && tickets_.size() > 1) {
    patience_.begun(clock.now());
  }
}

void BucketRun::publish(std::uint64_t calls, const Clock& clock) {
  collective_->publish(calls);
  if (tickets_.size() > 1) {
    patience_.filled(clock.now());
  }
}

void BucketRun::complete(std::vector<TicketPtr>& completed) {
  for (TicketPtr& ticket : tickets_) {
    completed.push_back(std::move(ticket));
    ticket.reset();
  }
}

void BucketRun::drop_tickets() { std::fill(tickets_.begin(), tickets_.end(), nullptr); }

bool BucketRun::is_wanted() const {
  return std::any_of(tickets_.begin(), tickets_.end(),
                     [](const TicketPtr& ticket) { return ticket && (ticket->is_wanted() || ticket->on_done()); });
}

agreement::Reason BucketRun::overdue(const Look& look) {
  const Nanoseconds waited = patience_.waited(look.instance, look.now);
  agreement::Reason reason = look.is_queue_late ? agreement::Reason::deadline : agreement::Reason::none;
  for (const TicketPtr& ticket : tickets_) {
    if (ticket && waited >= ticket->request().timeout) {
      ticket->set_deadline(std::min(ticket->deadline(), look.now));
      reason = agreement::Reason::deadline;
    }
  }
  if (reason != agreement::Reason::none) {
    return reason;
  }
  // Who is behind in a queue may be waited for.
  return patience_.judge(look.now, look.is_half_full, look.is_half_full && (is_wanted() || look.has_queued),
                         look.stall);
}

}  // namespace ronde::engine
