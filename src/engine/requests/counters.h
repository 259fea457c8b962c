// Counters of one engine; those of what is replayed are in replay_actions.h.
#pragma once

#include <atomic>
#include <cstdint>

namespace ronde::engine {

/// Written under the progress lock, or with fetch_add; read by any thread.
struct Counters {
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> plans{0};
  std::atomic<std::uint64_t> fused_tensors{0};
  std::atomic<std::uint64_t> bytes_reduced{0};
  std::atomic<std::uint64_t> direct_bytes{0};  ///< in negotiation; of those in replay see ReplayCounters
  std::atomic<std::uint64_t> control_messages{0};

  /// For those that one thread writes at a time: without a locked instruction.
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
};

}  // namespace ronde::engine
