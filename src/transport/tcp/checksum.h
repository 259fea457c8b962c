// Checksum: tells whether bytes have changed on the way. TCP's own is 16 bits wide, is often left to network cards, and
// does let changed bytes pass. It is no proof against somebody who changes them on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ronde::transport {

/// XXH3 of 64 bits, with a running state.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void restart();
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

  /// Of all at once; what a new one that these bytes are added to has as its value.
  static std::uint64_t of(std::span<const std::byte> bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ronde::transport
