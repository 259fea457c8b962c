#include "engine/requests/call_order.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

namespace ronde::engine {

std::uint64_t CallOrder::take_number() { return next_.fetch_add(1, std::memory_order_relaxed); }

std::uint64_t CallOrder::restart() {
  std::uint64_t next = next_.load(std::memory_order_relaxed);
  while (!next_.compare_exchange_weak(next, (((next - 1) >> kCallBits) + 1) << kCallBits | 1)) {
  }
  return next - 1;
}

void CallOrder::restart_at(std::uint64_t restarts) {
  next_.store(restarts << kCallBits | 1, std::memory_order_relaxed);
}

std::uint64_t CallOrder::last_number() const { return next_.load(std::memory_order_relaxed) - 1; }

std::string CallOrder::name_of(std::uint64_t number) {
  constexpr std::string_view kPrefix = "noname.";
  std::array<char, kPrefix.size() + 2 * std::numeric_limits<std::uint64_t>::digits10 + 3> text;
  char* at = std::copy(kPrefix.begin(), kPrefix.end(), text.begin());
  at = std::to_chars(at, text.end(), number >> kCallBits).ptr;
  *at++ = '.';
  at = std::to_chars(at, text.end(), number & ((std::uint64_t{1} << kCallBits) - 1)).ptr;
  return {text.begin(), at};
}

}  // namespace ronde::engine
