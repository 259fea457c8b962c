#include "engine/pending_table.h"

namespace ronde::engine {

std::string PendingTable::key(std::int32_t group, const std::string& name) {
  return group == 0 ? name : name + '\0' + std::to_string(group);
}

Status PendingTable::insert(const TicketPtr& ticket) {
  std::lock_guard lock(mutex_);
  const Request& request = ticket->request();
  if (!tickets_.emplace(key(request.group, request.name), ticket).second) {
    return Status::error(Code::duplicate_name,
                         "the name '" + request.name +
                             "' is still taken by a request that nobody has waited for or released. Wait for it "
                             "before submitting the name again, or give this request another name")
        .with_tensor(request.name);
  }
  ticket->set_holds_name(true);
  if (ticket->is_done()) {
    ticket->rearm();  // here, so that free_name() sees a holder that is done or one under way, nothing in between
  }
  return {};
}

TicketPtr PendingTable::find(std::int32_t group, const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto found = tickets_.find(key(group, name));
  return found == tickets_.end() ? nullptr : found->second;
}

void PendingTable::free_name(Ticket& ticket) {
  std::lock_guard lock(mutex_);
  if (ticket.holds_name() && ticket.is_done()) {
    erase(ticket);
  }
}

void PendingTable::withdraw(Ticket& ticket, Status reason) {
  std::lock_guard lock(mutex_);
  ticket.finish(std::move(reason));
  erase(ticket);
}

void PendingTable::erase(Ticket& ticket) {
  ticket.set_holds_name(false);
  tickets_.erase(key(ticket.request().group, ticket.request().name));
}

}  // namespace ronde::engine
