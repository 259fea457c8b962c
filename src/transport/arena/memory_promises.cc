#include "transport/arena/memory_promises.h"

#include <algorithm>
#include <atomic>

#include "base/memory_room.h"

namespace ronde::transport {

MemoryPromises::Promise::Promise(PromiseLine& line, std::uint64_t bytes) : line_(line), left_(bytes) {
  line_.bytes.fetch_add(bytes, std::memory_order_seq_cst);
}

void MemoryPromises::Promise::keep(std::uint64_t bytes) {
  left_ -= bytes;
  line_.bytes.fetch_sub(bytes, std::memory_order_seq_cst);
}

std::uint64_t MemoryPromises::room_here() { return memory_room(); }

MemoryPromises::Promise MemoryPromises::promise(std::uint64_t bytes) const {
  return Promise(*lines_[static_cast<std::size_t>(own_)], bytes);
}

/// By all ranks of the host.
std::uint64_t MemoryPromises::promised() const {
  std::uint64_t bytes = 0;
  for (const PromiseLine* const line : lines_) {
    bytes += line->bytes.load(std::memory_order_seq_cst);
  }
  return bytes;
}

std::uint64_t MemoryPromises::lack() const {
  // What is made between the two looks counts twice, as promised and as used: then look again, but not for ever.
  constexpr int kLooks = 8;
  std::uint64_t lacking = 0;
  for (int look = 0; look < kLooks; ++look) {
    const std::uint64_t before = promised();
    const std::uint64_t room = room_();
    lacking = before - std::min(before, room);
    if (lacking == 0 || promised() == before) {
      break;
    }
  }
  return lacking;
}

}  // namespace ronde::transport
