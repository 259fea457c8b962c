#include "transport/arena/mapped_arena.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/memory_room.h"
#include "transport/bell.h"

namespace ronde::transport {

namespace {

/// What this rank is about to make, in the word that tells the others of it.
class Promise {
 public:
  Promise(std::atomic<std::uint64_t>& word, std::uint64_t bytes) : word_(word), left_(bytes) {
    word_.fetch_add(bytes, std::memory_order_seq_cst);
  }
  ~Promise() { keep(left_); }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  /// So much of it is made, or never will be.
  void keep(std::uint64_t bytes) {
    left_ -= bytes;
    word_.fetch_sub(bytes, std::memory_order_seq_cst);
  }

 private:
  std::atomic<std::uint64_t>& word_;
  std::uint64_t left_;
};

}  // namespace

void MappedArena::ring_after_fence(int rank) { ring_bell_after_fence(control(rank).bell, member(rank).bell->get()); }

void MappedArena::ring_others_after_fence() {
  for (int rank = 0; rank < layout_.size; ++rank) {
    if (rank != rank_) {
      ring_bell_after_fence(control(rank).bell, member(rank).bell->get());
    }
  }
}

Status MappedArena::commit(std::size_t offset, std::size_t bytes) {
  if (offset > layout_.heap_bytes || bytes > layout_.heap_bytes - offset) {
    return Status::error(Code::out_of_memory, "the ranks of this host can share " + std::to_string(layout_.heap_bytes) +
                                                  " bytes each, and " + std::to_string(bytes) + " bytes at " +
                                                  std::to_string(offset) + " lie outside");
  }
  if (bytes == 0) {
    return {};
  }
  // Promised first, looked for then: of two ranks that ask at once at least one sees the other.
  Promise promise(control(rank_).promise.bytes, bytes);
  if (const std::uint64_t lack = lacking_room(); lack != 0) {
    discard(offset, bytes);
    return Status::error(Code::out_of_memory,
                         std::to_string(bytes) +
                             " bytes of shared memory were wanted and the machine or the container "
                             "has room for " +
                             std::to_string(bytes - std::min<std::uint64_t>(bytes, lack)) +
                             ", with what other ranks of this host are about to take");
  }
  // In pieces, so that what the kernel counts by now is not counted as promised for long.
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    const int error =
        pages::make(heap(rank_) + offset + at, piece, member(rank_).memfd.get(), layout_.heap_offset() + offset + at);
    if (error != 0) {
      discard(offset, bytes);
      return Status::error(
          Code::out_of_memory,
          Status::from_errno("making " + std::to_string(bytes) + " bytes of shared memory", error).message());
    }
    promise.keep(piece);
  }
  return {};
}

std::uint64_t MappedArena::memory_room_here() { return memory_room(); }

/// By all ranks of the host.
std::uint64_t MappedArena::promised() {
  std::uint64_t bytes = 0;
  for (int rank = 0; rank < layout_.size; ++rank) {
    bytes += control(rank).promise.bytes.load(std::memory_order_seq_cst);
  }
  return bytes;
}

/// How much less there is than all ranks are promised; 0: enough.
std::uint64_t MappedArena::lacking_room() {
  // What is made between the two looks counts twice, as promised and as used: then look again, but not for ever.
  constexpr int kLooks = 8;
  std::uint64_t lack = 0;
  for (int look = 0; look < kLooks; ++look) {
    const std::uint64_t before = promised();
    const std::uint64_t room = room_();
    lack = before - std::min(before, room);
    if (lack == 0 || promised() == before) {
      break;
    }
  }
  return lack;
}

void MappedArena::prefault(std::size_t offset, std::size_t bytes) {
  for (int rank = 0; rank < layout_.size; ++rank) {
    if (rank != rank_ && member(rank).mapping != member(rank_).mapping) {
      pages::enter(heap(rank) + offset, bytes);
    }
  }
}

void MappedArena::discard(std::size_t offset, std::size_t bytes) {
  if (layout_.heap_bytes == 0) {
    return;
  }
  if (!is_withdrawn(offset, bytes)) {
    pages::take(heap(rank_) + offset, bytes);
    return;
  }
  std::lock_guard lock(pages_mutex_);
  for (const PageRanges::Range& range : private_.common_with({offset, offset + bytes})) {
    pages::take_private(heap(rank_) + range.begin, range.end - range.begin);
  }
  for (const PageRanges::Range& range : withdrawn_.missing_from({offset, offset + bytes})) {
    pages::take(heap(rank_) + range.begin, range.end - range.begin);
  }
}

void MappedArena::withdraw(std::size_t offset, std::size_t bytes) {
  std::lock_guard lock(pages_mutex_);
  withdrawn_.add(PageRanges::whole_pages(offset, bytes, pages::bytes_of_one()));
  any_withdrawn_.store(true, std::memory_order_release);
}

bool MappedArena::is_withdrawn(std::size_t offset, std::size_t bytes) const {
  if (!any_withdrawn_.load(std::memory_order_acquire)) {
    return false;
  }
  std::lock_guard lock(pages_mutex_);
  return !withdrawn_.common_with({offset, offset + bytes}).empty();
}

Status MappedArena::make_private(std::size_t offset, std::size_t bytes) {
  const int memfd = member(rank_).memfd.get();
  if (memfd < 0) {
    return {};  // the ranks are one process
  }
  const PageRanges::Range wanted = PageRanges::whole_pages(offset, bytes, pages::bytes_of_one());
  std::lock_guard lock(pages_mutex_);
  for (const PageRanges::Range& shared : private_.missing_from(wanted)) {
    // First the pages of which only a part is meant, then those between them.
    const std::size_t page = pages::bytes_of_one();
    const std::size_t first = shared.begin < offset ? shared.begin + page : shared.begin;
    const std::size_t last = std::max(first, shared.end > offset + bytes ? shared.end - page : shared.end);
    int error = 0;
    for (const auto& [range, keeps_contents] :
         {std::pair(PageRanges::Range{shared.begin, first}, true), std::pair(PageRanges::Range{last, shared.end}, true),
          std::pair(PageRanges::Range{first, last}, false)}) {
      if (range.begin >= range.end || error != 0) {
        continue;
      }
      const std::size_t length = range.end - range.begin;
      const std::size_t at = layout_.heap_offset() + range.begin;
      error = pages::make_private(heap(rank_) + range.begin, length, memfd, at, keeps_contents);
      if (error == 0) {
        private_.add(range);
      }
      if (error == 0 && !keeps_contents) {
        // What takes their place is made when it is touched: so that not both exist, these go. A late rank makes those
        // that it stores into once more, for itself.
        static_cast<void>(::fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                                      static_cast<off_t>(length)));
      }
    }
    if (error != 0) {
      return Status::from_errno("making " + std::to_string(bytes) + " bytes of shared memory private", error);
    }
  }
  return {};
}

}  // namespace ronde::transport
