#include "engine/core/unfinished_work.h"

#include <iterator>
#include <utility>

namespace ronde::engine {

namespace {

void append(std::vector<TicketPtr>& tickets, std::vector<TicketPtr> more) {
  tickets.insert(tickets.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<TicketPtr> UnfinishedWork::close_agreement(const Status& reason, End end) {
  end == End::in_loss ? stages_.replay.all_quiet(reason) : stages_.replay.close(reason);
  ReplayOutbox::Outcome outcome;
  stages_.replay.take(outcome);
  std::vector<TicketPtr> tickets;
  for (const auto& [name, status] : outcome.failed) {
    if (TicketPtr ticket = stages_.pending.find(name)) {
      tickets.push_back(std::move(ticket));
    }
  }
  return tickets;
}

std::vector<TicketPtr> UnfinishedWork::take_all(const Status& later_ones, End end) {
  stages_.inbox.close(later_ones);
  stages_.plans.abandon();
  std::vector<TicketPtr> tickets = stages_.inbox.take().tickets;
  append(tickets, stages_.plans.take_abandoned());
  append(tickets, close_agreement(later_ones, end));
  append(tickets, stages_.pairs.abandon());
  return tickets;
}

void UnfinishedWork::end_all(const Reason& reason, const Status& later_ones, End end, TicketPtr join) {
  std::vector<TicketPtr> tickets = take_all(later_ones, end);
  if (join) {
    tickets.push_back(std::move(join));
  }
  for (const MemorySpan& span : stages_.plans.take_exposed()) {
    exposed_.add(span);
  }
  for (const MemorySpan& span : stages_.replay.exposed()) {
    exposed_.add(span);  // now that nothing more is published
  }
  if (connections_.mailbox) {
    connections_.mailbox->keep_lent();  // callers get their memory back next
  }
  if (end != End::in_order || !exposed_.is_empty()) {
    connections_.peers->say_given_up();
  }
  take_memory_back();
  for (const TicketPtr& ticket : tickets) {
    stages_.completion.finish(ticket, exposed_.with_memory_lost(reason(*ticket), *ticket).with_tensor(ticket->name()));
  }
}

void UnfinishedWork::take_memory_back() {
  // This rank touches nothing of the group's any more, and has said so.
  if (members_.may_any_touch()) {
    exposed_.take_back(is_in_use_);
  } else {
    exposed_.forget();
  }
}

}  // namespace ronde::engine
