#include "engine/requests/planning_names.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/stable_hash.h"

namespace ronde::engine {

namespace {

/// The context is a polynomial of the last calls at this point, modulo 2^64, so that one call more is one step: add the
/// new term, take off the oldest. (Karp and Rabin: Efficient randomized pattern-matching algorithms, 1987.)
constexpr std::uint64_t kPoint = 0x9e3779b97f4a7c15;

constexpr std::uint64_t power(std::uint64_t base, std::size_t exponent) {
  std::uint64_t result = 1;
  for (std::size_t i = 0; i < exponent; ++i) {
    result *= base;
  }
  return result;
}

/// Calls whose backward pass may be to come.
constexpr std::size_t kRecent = 1024;
/// Programs may use ever new memory, in ever new contexts.
constexpr std::size_t kMostPlaces = 1 << 16;

/// What of a call is the same on all ranks that make it: row counts need not be.
std::uint64_t signature(const Request& request) {
  std::uint64_t hash =
      mix(static_cast<std::uint64_t>(request.kind) << 32 | static_cast<std::uint64_t>(request.reduce_op));
  const auto add = [&hash](std::uint64_t value) { hash = mix(hash ^ value); };
  add(static_cast<std::uint64_t>(request.root));
  // Who does not know how a call came about may mean the program's own. Which of other ends it is behind never comes
  // again: that is compared with the calls' numbers (ReplayActions::publish()).
  add(static_cast<std::uint64_t>(is_behind_other(request.tag) ? kBehindOther : std::max(request.tag, kOwnOrder)));
  add(std::bit_cast<std::uint64_t>(request.prescale));
  add(std::bit_cast<std::uint64_t>(request.postscale));
  const bool has_rows = makes_outputs(request.kind);
  for (const RequestTensor& tensor : request.tensors) {
    add(static_cast<std::uint64_t>(tensor.input.dtype));
    for (std::size_t i = has_rows ? 1 : 0; i < tensor.input.shape.size(); ++i) {
      add(static_cast<std::uint64_t>(tensor.input.shape[i]));
    }
  }
  return hash;
}

constexpr std::string_view kPlanned = "unnamed.";
constexpr std::size_t kDigits = 16;

/// 16 hexadecimal digits from `at` on.
void write_hex(std::uint64_t value, std::string& text, std::size_t at) {
  for (std::size_t digit = kDigits; digit-- > 0; value >>= 4) {
    text[at + digit] = "0123456789abcdef"[value & 15];
  }
}

}  // namespace

void PlanningNames::forget_last() {
  last_.fill(0);
  context_ = 0;
}

/// 0: not known any more.
std::uint64_t PlanningNames::context_of(const Request& request) {
  Recent& recent = recent_[request.call_number % kRecent];
  if (!request.has_own_number) {
    return recent.number == request.call_number ? mix(recent.context + stable_hash("belongs")) : 0;
  }
  constexpr std::uint64_t kOldest = power(kPoint, kWindow);
  const std::uint64_t call = signature(request);
  context_ = context_ * kPoint + call - last_[at_] * kOldest;
  last_[at_] = call;
  at_ = (at_ + 1) % kWindow;
  recent = {request.call_number, context_};
  return mix(context_);
}

std::string PlanningNames::of(const Request& request, const MemoryPlace& place) {
  recent_.resize(kRecent);
  const std::uint64_t context = context_of(request);
  if (request.kind != OpKind::allreduce || context == 0) {
    return {};
  }
  std::string name(kPlanned.size() + kDigits, '\0');
  std::copy(kPlanned.begin(), kPlanned.end(), name.begin());
  write_hex(context, name, kPlanned.size());
  if (place.is_known()) {
    name += "@" + std::to_string(index_of(context, place));
  }
  return name;
}

std::size_t PlanningNames::index_of(std::uint64_t context, const MemoryPlace& place) {
  if (places_seen_ == kMostPlaces) {
    places_.clear();
    places_seen_ = 0;
  }
  std::unordered_map<std::uint64_t, std::size_t>& seen = places_[context];
  const std::uint64_t key =
      mix(static_cast<std::uint64_t>(place.input) ^ mix(static_cast<std::uint64_t>(place.output)));
  const auto [found, is_new] = seen.try_emplace(key, seen.size());
  places_seen_ += is_new ? 1 : 0;
  return found->second;
}

}  // namespace ronde::engine
