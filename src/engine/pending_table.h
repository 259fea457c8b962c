// PendingTable: the names in use. A name is taken from submit until its ticket is waited for or released, not until
// the engine happens to finish, so that whether a second submit is refused does not depend on timing.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/ticket.h"

namespace ronde::engine {

/// Any thread.
class PendingTable {
 public:
  /// Takes the name of the ticket's request in its group; DUPLICATE_NAME if it is taken. A ticket that is done, a
  /// slot's, is made ready to be used again.
  Status insert(const TicketPtr& ticket);
  /// Takes back an insert whose request could not be handed in: the ticket is done, with this status.
  void withdraw(Ticket& ticket, Status reason);
  /// The ticket that holds the name, null if none does.
  TicketPtr find(std::int32_t group, const std::string& name) const;
  /// Frees the name if this ticket holds it and is done. Of two threads that waited for a slot's ticket the slower may
  /// come after a third has submitted it again: then the name stays taken.
  void free_name(Ticket& ticket);

 private:
  void erase(Ticket& ticket);
  static std::string key(std::int32_t group, const std::string& name);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, TicketPtr> tickets_;
};

}  // namespace ronde::engine
