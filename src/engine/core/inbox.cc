#include "engine/core/inbox.h"

#include <string>
#include <utility>

#include "types/operations.h"

namespace ronde::engine {

Status Inbox::why_refused(const Request& request) const {
  std::lock_guard lock(mutex_);
  return refusal(request);
}

/// Requires: the lock.
Status Inbox::refusal(const Request& request) const {
  const Status& closed = is_pairwise(request.kind) ? closed_to_pairs_ : closed_;
  return closed ? Status() : closed.with_tensor(request.name).with_context("'" + request.name + "'");
}

Status Inbox::add(const TicketPtr& ticket) {
  std::lock_guard lock(mutex_);
  RONDE_RETURN_IF_ERROR(refusal(ticket->request()));
  waiting_.tickets.push_back(ticket);
  if (is_call(*ticket)) {
    calls_.fetch_add(1, std::memory_order_relaxed);
  }
  is_full_.store(true, std::memory_order_release);
  return {};
}

void Inbox::add(control::RefusedMessage refused) {
  std::lock_guard lock(mutex_);
  if (closed_) {
    waiting_.refused.push_back(std::move(refused));
    is_full_.store(true, std::memory_order_release);
  }
}

void Inbox::propose(const Thresholds& thresholds) {
  std::lock_guard lock(mutex_);
  if (closed_) {
    waiting_.proposed = thresholds;
    is_full_.store(true, std::memory_order_release);
  }
}

Inbox::Taken Inbox::take() {
  std::lock_guard lock(mutex_);
  is_full_.store(false, std::memory_order_relaxed);
  return std::exchange(waiting_, {});
}

void Inbox::close(const Status& reason) {
  close_to_collectives(reason);
  std::lock_guard lock(mutex_);
  if (closed_to_pairs_) {
    closed_to_pairs_ = reason;
  }
}

void Inbox::close_to_collectives(const Status& reason) {
  std::lock_guard lock(mutex_);
  if (closed_) {
    closed_ = reason;
    is_closed_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace ronde::engine
