// The two sides of a CallLine: which of a rank's groups there is something to see for, so that a rank that belongs to a
// thousand of them need not look at each to find the one that a peer has rung for. (A bell says only that there is
// something, see bell.h.)
//
// A bit is set after what it speaks of has been stored, and cleared before that is looked for; a sequentially
// consistent fence stands between the two on both sides. So either the caller finds the bit cleared and sets it again,
// or the owner's look finds what was stored. Who finds it set leaves it: a group that its rank looks at all the time
// keeps its bit, and calling it then writes nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/line.h"

namespace ronde::transport {

/// Groups that a rank may belong to at one time.
inline constexpr int kCallBits = 4096;

/// Which of a rank's groups are called, a bit for each. Set by any rank, cleared by the owner.
struct alignas(kLineBytes) CallLine {
  std::atomic<std::uint64_t> words[kCallBits / 64] = {};
};

inline std::atomic<std::uint64_t>& call_word(CallLine& line, int call) { return line.words[call / 64]; }
inline std::uint64_t call_bit(int call) { return std::uint64_t{1} << (call % 64); }

/// There is something to see for this group. Requires: a sequentially consistent fence after it was stored. The bell
/// may be rung without another one.
inline void call_group_after_fence(CallLine& line, int call) {
  std::atomic<std::uint64_t>& word = call_word(line, call);
  if ((word.load(std::memory_order_relaxed) & call_bit(call)) == 0) {
    word.fetch_or(call_bit(call), std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

/// The owner is about to look at this group for the last time until it is called again.
inline void take_call_back(CallLine& line, int call) {
  call_word(line, call).fetch_and(~call_bit(call), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace ronde::transport
