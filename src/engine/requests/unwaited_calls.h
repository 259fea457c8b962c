// UnwaitedCalls: which unnamed calls a program has made without waiting for the one before.
//
// A program that makes a list of calls of one look before it waits for any could have made them all at once, so they
// may be reduced at once and fused (agreement/call_bursts.h). How fast the ranks answer the first must not matter: a
// program in Python often makes the second call only after the first has ended. What matters is whether the program has
// been told of that end, by a wait, a test or a callback, since only then can the second call depend on it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "engine/requests/call_list.h"
#include "engine/requests/ticket.h"

namespace ronde::engine {

/// Calls from one thread at a time, in the order in which the program makes its calls.
class UnwaitedCalls {
 public:
  /// `ticket` is the next call of its planning name: in a list with the one before if the program has not been told
  /// that this has ended, else it begins one.
  void add(const TicketPtr& ticket) {
    constexpr std::size_t kMostNames = 4096;
    if (last_.size() >= kMostNames) {
      last_.clear();  // lists under way seem to begin anew
    }
    std::weak_ptr<Ticket>& last = last_[ticket->request().planning_name];
    const TicketPtr before = last.lock();
    const bool is_of_list = before && !before->is_told();
    ticket->set_list(is_of_list ? before->list() : std::make_shared<CallList>());
    last = ticket;
  }

 private:
  std::unordered_map<std::string, std::weak_ptr<Ticket>> last_;  ///< by planning name
};

}  // namespace ronde::engine
