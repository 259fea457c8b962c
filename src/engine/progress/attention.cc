#include "engine/progress/attention.h"

namespace ronde::engine {

bool Attention::look(Nanoseconds now, std::uint64_t instances) {
  if (instances != seen_) {
    seen_ = instances;
    since_ = now;
  }
  const bool on = instances > 0 && now - since_ < kAttentionSpan;
  on_.store(on, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return on;
}

}  // namespace ronde::engine
