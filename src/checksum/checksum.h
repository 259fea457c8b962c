// Checksum: XXH3 of 64 bits (https://xxhash.com), of bytes that come in pieces.
//
// xxHash is one header whose vector code is chosen when it is compiled. It is compiled here once for each processor level
// that makes a difference (xxh3.cc), and the best that runs is taken: with registers of 32 bytes it is three times as
// fast as with those of 16 that every x86-64 has (41 and 14 GB/s of 64 KiB). All levels give the same sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "checksum/xxh3.h"

namespace ronde {

/// One thread at a time. Not copied: xxHash keeps addresses within its state.
class Checksum {
 public:
  Checksum() : Checksum(*runnable_xxh3().back()) {}
  explicit Checksum(const Xxh3& way) : way_(way) { begin(); }
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  /// Of nothing.
  void begin() { way_.begin(state_.data()); }
  void add(std::span<const std::byte> bytes) { way_.add(state_.data(), bytes.data(), bytes.size()); }
  std::uint64_t value() const { return way_.value(state_.data()); }

  /// Of so many bytes at once.
  static std::uint64_t of(std::span<const std::byte> bytes) {
    return runnable_xxh3().back()->of(bytes.data(), bytes.size());
  }

 private:
  const Xxh3& way_;
  alignas(kXxh3StateAlignment) std::array<std::byte, kXxh3StateBytes> state_;
};

}  // namespace ronde
