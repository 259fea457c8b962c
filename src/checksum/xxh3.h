// The functions of xxHash as one processor level has them.
//
// xxh3.cc is compiled once for each, in a namespace of its own, and leaves nothing in its object file but its table and
// local symbols: the linker may take any object's weak symbol for the whole program, also one that was compiled for a
// processor that the program does not run on. The test checksum.no_weak_symbols looks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ronde {

/// xxHash's state, whose form is xxHash's business.
inline constexpr std::size_t kXxh3StateBytes = 576;
inline constexpr std::size_t kXxh3StateAlignment = 64;

struct Xxh3 {
  const char* level;  ///< "baseline", "avx2"
  void (*begin)(void* state);
  void (*add)(void* state, const void* bytes, std::size_t size);  ///< `bytes` may be null if there are none
  std::uint64_t (*value)(const void* state);
  std::uint64_t (*of)(const void* bytes, std::size_t size);
};

/// Those that this processor runs; the best last. Never empty. Any thread, also while the process ends.
std::span<const Xxh3* const> runnable_xxh3();

}  // namespace ronde
