// For tests: packets and keys that differ from each other.
#pragma once

#include <cstddef>
#include <vector>

#include "base/job_key.h"

namespace ronde::store {

/// Bytes of which no two neighbours are equal; others for another `seed`.
inline std::vector<std::byte> bytes_of(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(seed) * 31 + i * 7);
  }
  return bytes;
}

inline JobKey key_of(int number) {
  JobKey key;
  key.bytes.fill(static_cast<std::byte>(number));
  return key;
}

}  // namespace ronde::store
