#include "engine/loss.h"

namespace ronde::engine {

namespace {
constexpr int kWordBits = 64;
}

Loss::Loss(transport::HostArena& arena)
    : arena_(arena), gone_(static_cast<std::size_t>(arena.size())), lost_(static_cast<std::size_t>(arena.size())) {}

bool Loss::in_order(int peer) const { return arena_.control(peer).state.left.load(std::memory_order_acquire) != 0; }

void Loss::notice(int peer) {
  gone_[static_cast<std::size_t>(peer)].store(true, std::memory_order_release);
  if (!in_order(peer)) {
    lost_[static_cast<std::size_t>(peer)].store(true, std::memory_order_release);
    any_.store(true, std::memory_order_release);
  }
}

void Loss::learn_from_peers() {
  const int self = arena_.rank();
  for (int peer = 0; peer < arena_.size(); ++peer) {
    if (peer == self || lost_[static_cast<std::size_t>(peer)]) {
      continue;
    }
    for (int other = 0; other < arena_.size(); ++other) {
      const std::uint64_t word = arena_.control(peer).state.quiet[other / kWordBits].load(std::memory_order_acquire);
      if ((word >> (other % kWordBits) & 1) != 0 && other != self) {
        lost_[static_cast<std::size_t>(other)].store(true, std::memory_order_release);
        any_.store(true, std::memory_order_release);
      }
    }
  }
}

bool Loss::is_quiet(int peer) const {
  bool any = false;
  for (int w = 0; w < transport::kMaxHostRanks / kWordBits; ++w) {
    const std::uint64_t mine = arena_.control(arena_.rank()).state.quiet[w].load(std::memory_order_relaxed);
    if ((arena_.control(peer).state.quiet[w].load(std::memory_order_acquire) & mine) != mine) {
      return false;
    }
    any |= mine != 0;
  }
  return any;
}

bool Loss::settle() {
  const int self = arena_.rank();
  transport::StateLine& own = arena_.control(self).state;
  learn_from_peers();
  bool changed = false;
  for (int peer : lost()) {
    std::atomic<std::uint64_t>& word = own.quiet[peer / kWordBits];
    const std::uint64_t with_peer = word.load(std::memory_order_relaxed) | std::uint64_t{1} << (peer % kWordBits);
    changed |= with_peer != word.load(std::memory_order_relaxed);
    word.store(with_peer, std::memory_order_release);
  }
  bool all_quiet = true;
  for (int peer = 0; peer < arena_.size(); ++peer) {
    if (peer == self || lost_[static_cast<std::size_t>(peer)] || in_order(peer)) {
      continue;
    }
    if (changed) {
      arena_.ring(peer);
    }
    all_quiet &= is_quiet(peer);
  }
  return all_quiet;
}

std::vector<int> Loss::lost() const {
  std::vector<int> ranks;
  for (std::size_t peer = 0; peer < lost_.size(); ++peer) {
    if (lost_[peer].load(std::memory_order_acquire)) {
      ranks.push_back(static_cast<int>(peer));
    }
  }
  return ranks;
}

}  // namespace ronde::engine
