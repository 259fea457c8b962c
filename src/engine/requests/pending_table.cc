#include "engine/requests/pending_table.h"

namespace ronde::engine {

namespace {

constexpr std::uint64_t kStates = 4;

NameState state_of(std::uint64_t word) { return static_cast<NameState>(word % kStates); }

std::uint64_t with(std::uint64_t word, NameState state) {
  return word / kStates * kStates + static_cast<std::uint64_t>(state);
}

/// From `kept` to another state; false if it was in any other.
bool leave_kept(Ticket& ticket, NameState to) {
  std::uint64_t word = ticket.name_word().load(std::memory_order_relaxed);
  return state_of(word) == NameState::kept &&
         ticket.name_word().compare_exchange_strong(word, with(word, to), std::memory_order_acq_rel);
}

/// Not done any more, then taken, by a word that no earlier submit had: so nobody takes this submit for the last one.
void take(Ticket& ticket) {
  if (ticket.is_done()) {
    ticket.rearm();
  }
  std::atomic<std::uint64_t>& word = ticket.name_word();
  word.store(with(word.load(std::memory_order_relaxed) + kStates, NameState::taken), std::memory_order_release);
}

}  // namespace

Status PendingTable::insert(const TicketPtr& ticket) {
  if (leave_kept(*ticket, NameState::changing)) {
    take(*ticket);
    return {};
  }
  std::lock_guard lock(mutex_);
  const Request& request = ticket->request();
  TicketPtr& held = tickets_[request.name];
  if (held && !(held != ticket && leave_kept(*held, NameState::none))) {
    return Status::error(Code::duplicate_name,
                         "the name '" + request.name +
                             "' is still taken by a request that nobody has waited for or released. Wait for it "
                             "before submitting the name again, or give this request another name")
        .with_tensor(request.name);
  }
  held = ticket;
  take(*ticket);
  return {};
}

TicketPtr PendingTable::find(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto found = tickets_.find(name);
  return found == tickets_.end() ? nullptr : found->second;
}

void PendingTable::free_name(Ticket& ticket) {
  std::uint64_t word = ticket.name_word().load(std::memory_order_acquire);
  if (state_of(word) != NameState::taken || !ticket.is_done()) {
    return;
  }
  ticket.tell();
  if (ticket.keeps_name()) {
    ticket.name_word().compare_exchange_strong(word, with(word, NameState::kept), std::memory_order_acq_rel);
    return;
  }
  std::lock_guard lock(mutex_);
  if (ticket.name_word().compare_exchange_strong(word, with(word, NameState::none), std::memory_order_acq_rel)) {
    erase(ticket);
  }
}

void PendingTable::withdraw(Ticket& ticket, Status reason) {
  std::lock_guard lock(mutex_);
  ticket.finish(std::move(reason));
  std::atomic<std::uint64_t>& word = ticket.name_word();
  word.store(with(word.load(std::memory_order_relaxed), NameState::none), std::memory_order_release);
  erase(ticket);
}

void PendingTable::forget(Ticket& ticket) {
  std::lock_guard lock(mutex_);
  if (leave_kept(ticket, NameState::none)) {
    erase(ticket);
  }
}

void PendingTable::erase(Ticket& ticket) { tickets_.erase(ticket.request().name); }

}  // namespace ronde::engine
