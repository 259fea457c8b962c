// Memory of calls under way, which is used again: what the system gives anew has to be filled with zeros first, page by
// page, which takes longer than to copy a tensor.
#pragma once

#include <cstddef>
#include <utility>

namespace ronde::jax {

/// So many bytes at a multiple of 64. Any thread.
class Memory {
 public:
  Memory() = default;
  /// Throws std::bad_alloc.
  explicit Memory(std::size_t bytes);
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ronde::jax
