// RecordedHeap: an own heap for tests that does nothing and says what it was asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/arena/own_heap.h"

namespace ronde::transport {

class RecordedHeap final : public OwnHeap {
 public:
  RecordedHeap(std::byte* begin, std::size_t bytes, std::size_t engine_bytes = 0)
      : OwnHeap(begin, bytes, engine_bytes) {}

  Status commit(std::size_t offset, std::size_t bytes) override { return note("commit", offset, bytes); }
  void discard(std::size_t offset, std::size_t bytes) override { static_cast<void>(note("discard", offset, bytes)); }
  void withdraw(std::size_t offset, std::size_t bytes) override { static_cast<void>(note("withdraw", offset, bytes)); }
  bool is_withdrawn(std::size_t offset, std::size_t bytes) const override {
    return bytes > 0 && offset <= withdrawn_byte && withdrawn_byte < offset + bytes;
  }
  Status make_private(std::size_t offset, std::size_t bytes) override { return note("make_private", offset, bytes); }
  std::shared_ptr<const void> memory() const override { return memory_; }

  std::size_t withdrawn_byte = SIZE_MAX;
  std::vector<std::string> asked;  ///< "commit 0 4096"
  Status answer;                   ///< to what can fail

 private:
  Status note(const char* what, std::size_t offset, std::size_t bytes) {
    asked.push_back(std::string(what) + " " + std::to_string(offset) + " " + std::to_string(bytes));
    return answer;
  }

  const std::shared_ptr<const void> memory_ = std::make_shared<int>(0);
};

}  // namespace ronde::transport
