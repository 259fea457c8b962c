#include "calls.h"

#include <functional>
#include <set>
#include <string_view>

namespace ronde::jax {

namespace {

/// How many executions of one program may have left calls without an end before the oldest's are freed. XLA does not
/// say that it has given a program up, so it may as well be slow: other threads may run the same program.
constexpr std::size_t kExecutionsKept = 8;

bool has_ended(const Call& call) {
  std::int32_t done = 0;
  return ronde_test(call.ticket, &done) == RONDE_OK && done != 0;
}

}  // namespace

void leave(Call* call) noexcept {
  Stage expected = Stage::unclaimed;
  if (!call->stage.compare_exchange_strong(expected, Stage::left_finished)) {
    const std::unique_ptr<Call> owned(call);
    ronde_release(call->ticket);
  }
}

Calls& Calls::instance() {
  static auto* const calls = new Calls;
  return *calls;
}

Token Calls::next(const Token& before, std::string_view name) {
  Token token = before;
  token.call = 1 + last_call_.fetch_add(1, std::memory_order_relaxed);
  if (before.execution == 0) {
    token.execution = 1 + last_execution_.fetch_add(1, std::memory_order_relaxed);
    token.program = std::hash<std::string_view>{}(name);
    if (size() > 0) {
      tidy(token.program);
    }
  }
  return token;
}

/// The program is executed anew. Calls that an earlier execution has left, since a callback of Python's failed in it,
/// say, give their names back, and in the end their memory.
void Calls::tidy(std::uint64_t program) {
  std::vector<Call*> left;
  {
    const std::lock_guard lock(mutex_);
    std::set<std::uint64_t> executions;
    for (const auto& [number, call] : calls_) {
      if (call->token.program == program && !call->is_claimed && has_ended(*call)) {
        ronde_wait(call->ticket, 0.0);  // which frees the name
        executions.insert(call->token.execution);
        left.push_back(call);
      }
    }
    const std::uint64_t oldest = executions.size() > kExecutionsKept ? *executions.begin() : 0;
    std::erase_if(left, [oldest](const Call* call) { return call->token.execution != oldest; });
    for (const Call* call : left) {
      calls_.erase(call->token.call);
    }
    size_.store(calls_.size(), std::memory_order_relaxed);
  }
  for (Call* call : left) {
    leave(call);
  }
}

void Calls::add(Call* call) {
  const std::lock_guard lock(mutex_);
  calls_.emplace(call->token.call, call);
  size_.store(calls_.size(), std::memory_order_relaxed);
}

Call* Calls::claim(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second->is_claimed) {
    return nullptr;
  }
  found->second->is_claimed = true;
  return found->second;
}

void Calls::remove(Call* call) noexcept {
  const std::lock_guard lock(mutex_);
  calls_.erase(call->token.call);
  size_.store(calls_.size(), std::memory_order_relaxed);
}

void Calls::fail(const Token& token, const std::string& reason) noexcept {
  std::vector<Call*> left;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, call] : calls_) {
      if (call->token.execution != token.execution) {
        continue;
      }
      if (!call->is_claimed) {
        left.push_back(call);
      }
      call->reason = reason;
      ronde_cancel(call->ticket);
    }
    for (const Call* call : left) {
      calls_.erase(call->token.call);
    }
    size_.store(calls_.size(), std::memory_order_relaxed);
  } catch (...) {
    return;  // without memory: what is left stays, as the calls of a program that nobody ends
  }
  for (Call* call : left) {
    ronde_wait(call->ticket, -1.0);  // so that the name is free when the program is executed again
    leave(call);
  }
}

std::string Calls::cause_of(const Call& call) {
  const std::lock_guard lock(mutex_);
  if (!call.reason.empty()) {
    return call.reason;
  }
  for (const auto& [number, other] : calls_) {
    ronde_error_info info{};
    info.struct_size = sizeof(info);
    if (other->token.execution == call.token.execution && other != &call && has_ended(*other) &&
        ronde_ticket_error(other->ticket, &info) == RONDE_OK && info.status != RONDE_OK &&
        info.status != RONDE_CANCELLED && info.message != nullptr) {
      return info.message;
    }
  }
  return {};
}

}  // namespace ronde::jax
