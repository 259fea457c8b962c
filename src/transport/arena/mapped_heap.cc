#include "transport/arena/mapped_heap.h"

#include <fcntl.h>

#include <algorithm>
#include <string>

namespace ronde::transport {

Status MappedHeap::commit(std::size_t offset, std::size_t bytes) {
  if (offset > size_bytes() || bytes > size_bytes() - offset) {
    return Status::error(Code::out_of_memory, "the ranks of this host can share " + std::to_string(size_bytes()) +
                                                  " bytes each, and " + std::to_string(bytes) + " bytes at " +
                                                  std::to_string(offset) + " lie outside");
  }
  if (bytes == 0) {
    return {};
  }
  MemoryPromises::Promise promise = promises_.promise(bytes);
  if (const std::uint64_t lack = promises_.lack(); lack != 0) {
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
    const int error = pages::make(begin() + offset + at, piece, memfd_.get(), file_offset_ + offset + at);
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

void MappedHeap::discard(std::size_t offset, std::size_t bytes) {
  if (size_bytes() == 0) {
    return;
  }
  if (!is_withdrawn(offset, bytes)) {
    pages::take(begin() + offset, bytes);
    return;
  }
  std::lock_guard lock(pages_mutex_);
  for (const PageRanges::Range& range : private_.common_with({offset, offset + bytes})) {
    pages::take_private(begin() + range.begin, range.end - range.begin);
  }
  for (const PageRanges::Range& range : withdrawn_.missing_from({offset, offset + bytes})) {
    pages::take(begin() + range.begin, range.end - range.begin);
  }
}

void MappedHeap::withdraw(std::size_t offset, std::size_t bytes) {
  std::lock_guard lock(pages_mutex_);
  withdrawn_.add(PageRanges::whole_pages(offset, bytes, pages::bytes_of_one()));
  any_withdrawn_.store(true, std::memory_order_release);
}

bool MappedHeap::is_withdrawn(std::size_t offset, std::size_t bytes) const {
  if (!any_withdrawn_.load(std::memory_order_acquire)) {
    return false;
  }
  std::lock_guard lock(pages_mutex_);
  return !withdrawn_.common_with({offset, offset + bytes}).empty();
}

Status MappedHeap::make_private(std::size_t offset, std::size_t bytes) {
  if (!memfd_.is_open()) {
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
      const std::size_t at = file_offset_ + range.begin;
      error = pages::make_private(begin() + range.begin, length, memfd_.get(), at, keeps_contents);
      if (error == 0) {
        private_.add(range);
      }
      if (error == 0 && !keeps_contents) {
        // What takes their place is made when it is touched: so that not both exist, these go. A late rank makes those
        // that it stores into once more, for itself.
        static_cast<void>(::fallocate(memfd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
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
