#include "transport/messages/arrived_messages.h"

#include <utility>

namespace ronde::transport {

bool ArrivedMessages::is_forgotten(const MessageKey& key) const {
  const auto first = first_instances_.find(key.collective);
  return first != first_instances_.end() && key.instance < first->second;
}

bool ArrivedMessages::put(int from, const MessageKey& key, Received&& message) {
  return kept_[static_cast<std::size_t>(from)].try_emplace(key, std::move(message)).second;
}

bool ArrivedMessages::take(int from, const MessageKey& key, Received& message) {
  auto& kept = kept_[static_cast<std::size_t>(from)];
  const auto found = kept.find(key);
  if (found == kept.end()) {
    return false;
  }
  message = std::move(found->second);
  kept.erase(found);
  return true;
}

void ArrivedMessages::forget_before(std::uint32_t collective, std::uint64_t instance) {
  first_instances_[collective] = instance;
  for (auto& kept : kept_) {
    std::erase_if(
        kept, [&](const auto& each) { return each.first.collective == collective && each.first.instance < instance; });
  }
}

void ArrivedMessages::forget(std::uint32_t collective) {
  forget_before(collective, ~std::uint64_t{0});
  first_instances_.erase(collective);
}

std::size_t ArrivedMessages::count() const {
  std::size_t count = 0;
  for (const auto& each : kept_) {
    count += each.size();
  }
  return count;
}

}  // namespace ronde::transport
