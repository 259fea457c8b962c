// HeapTail: the rest of another heap from some offset on, as a heap of its own: so a group's arena has one within the
// host's (group_arena.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "base/status.h"
#include "transport/arena/own_heap.h"

namespace ronde::transport {

class HeapTail final : public OwnHeap {
 public:
  /// From `start` to the end of `whole`, which must outlive this. `engine_bytes`: of this heap.
  HeapTail(OwnHeap& whole, std::size_t start, std::size_t engine_bytes)
      : OwnHeap(start < whole.size_bytes() ? whole.begin() + start : nullptr,
                whole.size_bytes() - std::min(start, whole.size_bytes()), engine_bytes),
        whole_(whole),
        start_(start) {}

  Status commit(std::size_t offset, std::size_t bytes) override { return whole_.commit(start_ + offset, bytes); }
  void discard(std::size_t offset, std::size_t bytes) override { whole_.discard(start_ + offset, bytes); }
  void withdraw(std::size_t offset, std::size_t bytes) override { whole_.withdraw(start_ + offset, bytes); }
  bool is_withdrawn(std::size_t offset, std::size_t bytes) const override {
    return whole_.is_withdrawn(start_ + offset, bytes);
  }
  Status make_private(std::size_t offset, std::size_t bytes) override {
    return whole_.make_private(start_ + offset, bytes);
  }
  std::shared_ptr<const void> memory() const override { return whole_.memory(); }

 private:
  OwnHeap& whole_;
  const std::size_t start_;
};

}  // namespace ronde::transport
