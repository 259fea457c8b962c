#include "agreement/call_queues.h"

#include <algorithm>

namespace ronde::agreement {

void CallQueues::push(std::uint32_t place, Call call) {
  queues_[place].push_back(std::move(call));
  ++size_;
}

std::optional<Call> CallQueues::pop(std::uint32_t place) {
  const auto found = queues_.find(place);
  if (found == queues_.end()) {
    return std::nullopt;
  }
  std::optional<Call> call(std::move(found->second.front()));
  found->second.pop_front();
  if (found->second.empty()) {
    queues_.erase(found);
  }
  --size_;
  return call;
}

std::vector<std::pair<std::uint32_t, Call>> CallQueues::take_all() {
  std::vector<std::pair<std::uint32_t, Call>> calls;
  for (auto& [place, queue] : std::exchange(queues_, {})) {
    for (Call& call : queue) {
      calls.emplace_back(place, std::move(call));
    }
  }
  size_ = 0;
  return calls;
}

Nanoseconds CallQueues::next_deadline() const {
  Nanoseconds next = kNever;
  for (const auto& [place, queue] : queues_) {
    next = std::min(next, queue.front().deadline);
  }
  return next;
}

}  // namespace ronde::agreement
