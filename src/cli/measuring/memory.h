// Memory for a tensor, without values: std::vector would write it, and the first touch should be the pattern's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace ronde::cli {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

/// nullptr if there is none. Small ones lie as close as an allocator of tensors puts them (a page each would put
/// thousands of them on the same few lines of a cache), large ones on pages of their own.
inline Memory allocate_private(std::uint64_t bytes) {
  constexpr std::uint64_t kLine = 64;
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kSmall = 64 << 10;
  const std::uint64_t alignment = bytes < kSmall ? kLine : kPage;
  return Memory(
      std::aligned_alloc(alignment, (std::max<std::uint64_t>(bytes, 1) + alignment - 1) / alignment * alignment));
}

}  // namespace ronde::cli
