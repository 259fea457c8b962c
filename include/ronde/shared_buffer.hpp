// Ronde's C++ interface: memory that every rank of the host maps. Include <ronde/ronde.hpp>.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include <ronde/error.hpp>
#include <ronde/job.hpp>

namespace ronde {

/// Zeroed memory that the ranks of the host share: an all-reduce of a tensor that lies, result included, in such
/// memory on every rank copies nothing. Ranks may allocate in any order; a tensor begins equally far from a multiple of
/// 128 bytes on all of them, else all is still right and only slower. Movable; freed with the object, at any time, also
/// after shutdown.
///
///   ronde::SharedBuffer gradients("gradients", count * sizeof(float));
///   std::span<float> weight = gradients.as<float>().subspan(0, weights);
///
/// Requires at its end: every ticket with a tensor in it was waited for or destroyed.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  /// Throws Error, OUT_OF_MEMORY if there is no room for as much from every rank.
  SharedBuffer(std::string_view name, std::size_t bytes, const Engine* engine = nullptr) : bytes_(bytes) {
    detail::check(
        ronde_alloc_shared(engine == nullptr ? nullptr : engine->handle(), name.data(), name.size(), bytes, &data_));
  }
  SharedBuffer(SharedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedBuffer() { (void)ronde_free_shared(data_); }

  void* data() const { return data_; }
  std::size_t size_bytes() const { return bytes_; }
  /// The whole as elements of T; what is left over at the end is left out.
  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The name until 0.1; it goes after 0.2.
using Bucket [[deprecated("ronde::SharedBuffer")]] = SharedBuffer;

}  // namespace ronde
