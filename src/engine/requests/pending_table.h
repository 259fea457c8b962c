// PendingTable: the names in use in one engine. A name is taken from submit until its ticket is waited for or released,
// not until the engine happens to finish, so that whether a second submit is refused does not depend on timing.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/requests/ticket.h"

namespace ronde::engine {

/// What a ticket has to do with its name.
enum class NameState : std::uint64_t {
  none = 0,   ///< the table does not know the ticket
  kept = 1,   ///< the table has it under its name, which is free
  taken = 2,  ///< submitted, neither waited for nor released
  changing = 3,
};

/// Any thread.
class PendingTable {
 public:
  /// Takes the name of the ticket's request; DUPLICATE_NAME if it is taken. A ticket that is done, a
  /// slot's, is made ready to be used again.
  Status insert(const TicketPtr& ticket);
  /// Takes back an insert whose request could not be handed in: the ticket is done, with this status.
  void withdraw(Ticket& ticket, Status reason);
  /// The ticket that the table has under this name, null if none.
  TicketPtr find(const std::string& name) const;
  /// Frees the name if this ticket holds it and is done. Of two threads that waited for a slot's ticket the slower may
  /// come after a third has submitted it again: then the name stays taken.
  void free_name(Ticket& ticket);
  /// Calls visit(ticket) for all that are not done.
  template <typename Visit>
  void for_each_under_way(const Visit& visit) const {
    std::lock_guard lock(mutex_);
    for (const auto& [name, ticket] : tickets_) {
      if (!ticket->is_done()) {
        visit(*ticket);
      }
    }
  }
  /// The ticket is not submitted again. Requires: its name is free.
  void forget(Ticket& ticket);

 private:
  void erase(Ticket& ticket);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, TicketPtr> tickets_;
};

}  // namespace ronde::engine
