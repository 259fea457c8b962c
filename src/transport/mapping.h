// Memory shared between ranks that unmaps itself.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

#include "base/status.h"

namespace ronde::transport {

/// A shared mapping that a forked child does not inherit and core dumps do not hold.
class Mapping {
 public:
  enum class Access {
    own,      ///< readable and writable, every page allocated at once
    control,  ///< a peer's: only the pages of the control block are writable
  };

  /// Memory of this process alone, all zero.
  static Result<Mapping> anonymous(std::size_t bytes);
  /// The first `bytes` of a memfd. The descriptor may be closed afterwards.
  static Result<Mapping> of_memfd(int memfd, std::size_t bytes, Access access);

  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_), owner_(other.owner_) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;
  /// In a forked child the range may belong to something else by now, so there nothing is unmapped.
  ~Mapping();

  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Mapping(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  static Result<Mapping> finish(void* address, std::size_t bytes);

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  pid_t owner_ = ::getpid();
};

}  // namespace ronde::transport
