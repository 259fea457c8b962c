#include "engine/call_order.h"

#include <algorithm>
#include <bit>

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
/// Programs may use ever new memory.
constexpr std::size_t kMostPlaces = 64;
constexpr std::size_t kMostContexts = 4096;

/// What of a call is the same on all ranks that make it: row counts need not be.
std::uint64_t signature(const Request& request) {
  std::uint64_t hash =
      mix(static_cast<std::uint64_t>(request.kind) << 32 | static_cast<std::uint64_t>(request.reduce_op));
  const auto add = [&hash](std::uint64_t value) { hash = mix(hash ^ value); };
  add(static_cast<std::uint64_t>(request.root));
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

void append_hex(std::string& text, std::uint64_t value) {
  for (int shift = 60; shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[value >> shift & 15];
  }
}

}  // namespace

std::uint64_t CallOrder::take_number() {
  std::lock_guard lock(mutex_);
  return next_++;
}

std::uint64_t CallOrder::restart() {
  std::lock_guard lock(mutex_);
  const std::uint64_t last = next_ - 1;
  next_ = ((last >> kCallBits) + 1) << kCallBits | 1;
  return last;
}

void CallOrder::restart_at(std::uint64_t restarts) {
  forget_last();
  std::lock_guard lock(mutex_);
  next_ = restarts << kCallBits | 1;
}

std::uint64_t CallOrder::last_number() {
  std::lock_guard lock(mutex_);
  return next_ - 1;
}

/// A rank that had joined has not made the calls that others have.
void CallOrder::forget_last() {
  last_.fill(0);
  context_ = 0;
}

std::string CallOrder::name_of(std::uint64_t number) {
  return "noname." + std::to_string(number >> kCallBits) + "." +
         std::to_string(number & ((std::uint64_t{1} << kCallBits) - 1));
}

/// 0: not known any more.
std::uint64_t CallOrder::context_of(const Request& request) {
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

std::string CallOrder::planning_name(const Request& request, const HeapPlace& place) {
  recent_.resize(kRecent);
  const std::uint64_t context = context_of(request);
  if (request.kind != OpKind::allreduce || context == 0) {
    return {};
  }
  std::string name = "unnamed.";
  append_hex(name, context);
  if (place.is_known()) {
    name += "@" + std::to_string(index_of(context, place));
  }
  return name;
}

std::size_t CallOrder::index_of(std::uint64_t context, const HeapPlace& place) {
  if (places_.size() > kMostContexts) {
    places_.clear();
  }
  std::vector<HeapPlace>& seen = places_[context];
  const auto found = std::find(seen.begin(), seen.end(), place);
  if (found != seen.end()) {
    return static_cast<std::size_t>(found - seen.begin());
  }
  if (seen.size() == kMostPlaces) {
    seen.clear();
  }
  seen.push_back(place);
  return seen.size() - 1;
}

}  // namespace ronde::engine
