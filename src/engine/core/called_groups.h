// CalledGroups: which of a rank's groups are called and not awake (engine_set.h), of the bits in the rank's CallLine
// (transport/group_calls.h). A group that is awake is looked at in each step, called or not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/group_calls.h"

namespace ronde::engine {

/// Groups go by their numbers in the CallLine. One thread at a time changes what is awake, and none reads it then;
/// any thread calls.
class CalledGroups {
 public:
  /// `line`, of this rank, must outlive this.
  explicit CalledGroups(transport::CallLine& line) : line_(line) {}

  /// Makes room for this number; may throw.
  void reserve(int call) {
    const auto words = static_cast<std::size_t>(call) / 64 + 1;
    if (awake_.size() < words) {
      awake_.resize(words);
    }
  }
  /// Requires: there is room.
  void set_awake(int call) { awake_[static_cast<std::size_t>(call) / 64] |= transport::call_bit(call); }
  void set_at_rest(int call) { awake_[static_cast<std::size_t>(call) / 64] &= ~transport::call_bit(call); }

  /// Any thread: something was stored that the group has to look at.
  void call(int call) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    transport::call_group_after_fence(line_, call);
  }
  /// What is stored from here on comes with a call; what was stored before, the group's next step finds.
  void take_back(int call) const { transport::take_call_back(line_, call); }

  bool any() const {
    for (std::size_t word = 0; word < awake_.size(); ++word) {
      if (called(word) != 0) {
        return true;
      }
    }
    return false;
  }
  /// `visit` is given the number of each; it may set_awake() it.
  template <typename Visit>
  void each(const Visit& visit) {
    for (std::size_t word = 0; word < awake_.size(); ++word) {
      for (std::uint64_t bits = called(word); bits != 0; bits &= bits - 1) {
        visit(static_cast<int>(word) * 64 + __builtin_ctzll(bits));
      }
    }
  }

 private:
  std::uint64_t called(std::size_t word) const {
    return line_.words[word].load(std::memory_order_acquire) & ~awake_[word];
  }

  transport::CallLine& line_;
  std::vector<std::uint64_t> awake_;  ///< a bit for each
};

}  // namespace ronde::engine
