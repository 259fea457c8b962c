#include "transport/arena/heap_map.h"

#include <iterator>

namespace ronde::transport {

HeapMap::HeapMap(HeapRange range) {
  if (range.begin < range.end) {
    free_.emplace(range.begin, range.end);
  }
}

std::optional<std::int64_t> HeapMap::allocate(std::uint64_t bytes, std::uint64_t align) {
  const std::uint64_t wanted = bytes == 0 ? align : (bytes + align - 1) / align * align;
  if (wanted < bytes) {
    return std::nullopt;  // more than any number of bytes
  }
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    const auto [begin, end] = *hole;
    const std::uint64_t first = (static_cast<std::uint64_t>(begin) + align - 1) / align * align;
    const auto limit = static_cast<std::uint64_t>(end);
    if (first > limit || limit - first < wanted) {
      continue;
    }
    const auto offset = static_cast<std::int64_t>(first);
    const auto after = static_cast<std::int64_t>(first + wanted);
    free_.erase(hole);
    if (begin < offset) {
      free_.emplace(begin, offset);
    }
    if (after < end) {
      free_.emplace(after, end);
    }
    taken_.emplace(offset, after);
    return offset;
  }
  return std::nullopt;
}

bool HeapMap::free(std::int64_t offset) {
  const auto found = taken_.find(offset);
  if (found == taken_.end()) {
    return false;
  }
  std::int64_t begin = found->first;
  std::int64_t end = found->second;
  taken_.erase(found);
  const auto next = free_.lower_bound(begin);
  if (next != free_.begin() && std::prev(next)->second == begin) {
    begin = std::prev(next)->first;
    free_.erase(std::prev(next));
  }
  if (next != free_.end() && next->first == end) {
    end = next->second;
    free_.erase(next);
  }
  free_.emplace(begin, end);
  return true;
}

std::uint64_t HeapMap::bytes_free() const {
  std::uint64_t bytes = 0;
  for (const auto& [begin, end] : free_) {
    bytes += static_cast<std::uint64_t>(end - begin);
  }
  return bytes;
}

}  // namespace ronde::transport
