#include "engine/membership/deaths.h"

#include <algorithm>

namespace ronde::engine {

Deaths::Deaths(transport::Peers& peers)
    : peers_(peers), gone_(static_cast<std::size_t>(peers.size())), lost_(static_cast<std::size_t>(peers.size())) {}

void Deaths::notice(int peer) {
  gone_[static_cast<std::size_t>(peer)].store(true, std::memory_order_release);
  if (!in_order(peer)) {
    lost_[static_cast<std::size_t>(peer)].store(true, std::memory_order_release);
    any_.store(true, std::memory_order_release);
  }
}

void Deaths::learn_from_peers() {
  const int self = peers_.self();
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (peer == self || lost_[static_cast<std::size_t>(peer)]) {
      continue;
    }
    for (int other = 0; other < peers_.size(); ++other) {
      if (other != self && peers_.is_quiet_about(peer, other)) {
        lost_[static_cast<std::size_t>(other)].store(true, std::memory_order_release);
        any_.store(true, std::memory_order_release);
      }
    }
  }
}

void Deaths::say_quiet() {
  const std::vector<int> all = lost();
  if (std::all_of(all.begin(), all.end(), [&](int peer) { return peers_.is_quiet_about(peers_.self(), peer); })) {
    return;
  }
  peers_.say_quiet(all);
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (is_survivor(peer)) {
      peers_.wake(peer);
    }
  }
}

bool Deaths::is_survivor(int peer) const {
  return peer != peers_.self() && !lost_[static_cast<std::size_t>(peer)] && !in_order(peer);
}

bool Deaths::are_all_quiet() const {
  for (int peer = 0; peer < peers_.size(); ++peer) {
    if (is_survivor(peer) && !is_quiet(peer)) {
      return false;
    }
  }
  return true;
}

bool Deaths::is_quiet(int peer) const {
  bool any = false;
  for (int other = 0; other < peers_.size(); ++other) {
    if (peers_.is_quiet_about(peers_.self(), other)) {
      any = true;
      if (!peers_.is_quiet_about(peer, other)) {
        return false;
      }
    }
  }
  return any;
}

std::vector<int> Deaths::lost() const {
  std::vector<int> ranks;
  for (std::size_t peer = 0; peer < lost_.size(); ++peer) {
    if (lost_[peer].load(std::memory_order_acquire)) {
      ranks.push_back(static_cast<int>(peer));
    }
  }
  return ranks;
}

}  // namespace ronde::engine
