// Heap map: gives out offsets of a heap that the ranks of a host map (arena.h). First fit over offsets; it touches no
// memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace ronde::transport {

/// Bytes [begin, end) of every rank's heap; empty: there is none.
struct HeapRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

inline constexpr std::uint64_t kPageAlign = 4096;  ///< of what users get, and of slots
inline constexpr std::uint64_t kLineAlign = 128;

class HeapMap {
 public:
  explicit HeapMap(HeapRange range);

  /// The offset of a range that overlaps no other; nothing if none is left that long. Zero bytes take one alignment.
  /// `align` is a power of two.
  std::optional<std::int64_t> allocate(std::uint64_t bytes, std::uint64_t align);
  /// Gives back what begins here; false if nothing does.
  bool free(std::int64_t offset);
  bool is_allocated(std::int64_t offset) const { return taken_.contains(offset); }
  std::uint64_t bytes_free() const;

 private:
  std::map<std::int64_t, std::int64_t> free_;   ///< begin -> end, never adjacent
  std::map<std::int64_t, std::int64_t> taken_;  ///< begin -> end
};

}  // namespace ronde::transport
