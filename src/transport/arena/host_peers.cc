#include "transport/arena/host_peers.h"

namespace ronde::transport {

namespace {
constexpr int kWordBits = 64;
}

HostPeers::HostPeers(HostArena& arena) : arena_(arena) {
  for (int member = 0; member < arena.size(); ++member) {
    if (member != arena.rank()) {
      given_up_.push_back(&arena.control(member).breaks.given_up);
    }
  }
}

void HostPeers::say_departed(Departure how) {
  arena_.control(self()).state.left.store(static_cast<std::uint32_t>(how), std::memory_order_release);
}

void HostPeers::say_frozen(std::uint32_t epoch, std::uint32_t reason) {
  BreakLine& own = arena_.control(self()).breaks;
  own.reason.store(reason, std::memory_order_relaxed);
  own.frozen.store(epoch, std::memory_order_release);
  arena_.bells().ring_others();
  arena_.bells().ring(self());
}

void HostPeers::say_quiet(const std::vector<int>& lost) {
  StateLine& own = arena_.control(self()).state;
  for (int member : lost) {
    std::atomic<std::uint64_t>& word = own.quiet[member / kWordBits];
    word.store(word.load(std::memory_order_relaxed) | std::uint64_t{1} << (member % kWordBits),
               std::memory_order_release);
  }
}

void HostPeers::say_given_up() {
  arena_.control(self()).breaks.given_up.store(1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Departure HostPeers::departure(int member) const {
  const std::uint32_t word = arena_.control(member).state.left.load(std::memory_order_acquire);
  return word == 0 ? Departure::none : (word == 1 ? Departure::in_order : Departure::final);
}

std::uint32_t HostPeers::frozen_in(int member) const {
  return arena_.control(member).breaks.frozen.load(std::memory_order_acquire);
}

bool HostPeers::is_quiet_about(int member, int lost) const {
  const std::uint64_t word = arena_.control(member).state.quiet[lost / kWordBits].load(std::memory_order_acquire);
  return (word >> (lost % kWordBits) & 1) != 0;
}

bool HostPeers::has_given_up(int member) const {
  return arena_.control(member).breaks.given_up.load(std::memory_order_acquire) != 0;
}

bool HostPeers::has_any_given_up() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  for (const std::atomic<std::uint32_t>* const word : given_up_) {
    if (word->load(std::memory_order_relaxed) != 0) [[unlikely]] {
      return true;
    }
  }
  return false;
}

}  // namespace ronde::transport
