#include "engine/requests/completion.h"

#include <cstddef>
#include <utility>

namespace ronde::engine {

void Completion::finish(const TicketPtr& ticket, Status status) {
  if (ticket->is_done()) {
    return;
  }
  if (observer_ != nullptr) {
    observer_->finished(ticket->request(), status, clock_.now());
  }
  end(ticket, std::move(status));
  if (on_finished_) {
    on_finished_();
  }
}

bool Completion::finish_all(std::vector<TicketPtr>& completed) {
  if (completed.empty()) {
    return false;
  }
  // Whatever a hook throws, none is ended twice: a caller may have submitted it again.
  struct Telling {
    Completion& completion;
    std::vector<TicketPtr>& completed;
    std::size_t ended = 0;
    std::uint64_t bytes = 0;
    ~Telling() {
      Counters::add(completion.counters_.bytes_reduced, bytes);
      if (ended == completed.size()) {
        completed.clear();
      } else {
        completed.erase(completed.begin(), completed.begin() + static_cast<std::ptrdiff_t>(ended));
      }
      if (completion.on_finished_) {
        completion.on_finished_();
      }
    }
  } telling{*this, completed};
  while (telling.ended < completed.size()) {
    const TicketPtr& ticket = completed[telling.ended++];
    telling.bytes += ticket->input_bytes();
    end(ticket, {});
  }
  return true;
}

void Completion::end(const TicketPtr& ticket, Status status) {
  if (ticket->is_of_joined_rank()) {
    ticket->finish(std::move(status));
    return;  // nobody here has asked for it
  }
  Counters::add(finished_, 1);
  if (!ticket->on_done()) {
    ticket->finish(std::move(status));
    return;
  }
  // Once it is done its caller may submit it again: what the callback is told is taken before that.
  std::shared_ptr<void> owner = ticket->take_owner();
  Status copy = status;
  ticket->finish(std::move(status));
  if (on_callback_) {
    on_callback_(ticket, std::move(copy), std::move(owner));
  }
}

}  // namespace ronde::engine
