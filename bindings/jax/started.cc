#include "started.h"

#include <set>

namespace ronde::jax {

Started& Started::instance() {
  static auto* const all = new Started;
  return *all;
}

void Started::add(Call* call) {
  const std::lock_guard lock(mutex_);
  calls_.emplace(call->token.call, call);
}

Call* Started::claim(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(number);
  if (found == calls_.end()) {
    return nullptr;
  }
  Call* const call = found->second;
  calls_.erase(found);
  return call;
}

std::vector<Call*> Started::take(std::int64_t run) {
  std::vector<Call*> taken;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, call] : calls_) {
    if (call->run == run) {
      taken.push_back(call);
    }
  }
  for (const Call* call : taken) {
    calls_.erase(call->token.call);
  }
  return taken;
}

std::vector<std::int64_t> Started::others_of(std::uint64_t program, std::int64_t run) {
  std::set<std::int64_t> others;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, call] : calls_) {
    if (call->token.program == program && call->run != run) {
      others.insert(call->run);
    }
  }
  return {others.begin(), others.end()};
}

}  // namespace ronde::jax
