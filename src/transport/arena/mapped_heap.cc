#include "transport/arena/mapped_heap.h"

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
  if (size_bytes() != 0) {
    withdrawn_.discard(offset, bytes);
  }
}

}  // namespace ronde::transport
