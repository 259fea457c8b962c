#include "transport/ofi/fragment_window.h"

#include <algorithm>

namespace ronde::transport {

bool FragmentWindow::admit(const FragmentHead& head) {
  const bool is_in_window = head.number == 0 || (head.number > taken_ && head.number <= taken_ + width_);
  if (!is_in_window || head.taken > sent_) {
    return false;
  }
  taken_by_peer_ = std::max(taken_by_peer_, head.taken);
  return true;
}

FragmentRoom FragmentRoom::for_peers(std::size_t peers, std::size_t largest) {
  constexpr std::size_t kBudget = std::size_t{64} << 20;
  constexpr std::size_t kLeastBytes = std::size_t{8} << 10;
  constexpr std::size_t kMostWidth = 16;
  constexpr std::size_t kLeastWidth = 4;
  FragmentRoom room{std::size_t{64} << 10, kMostWidth};
  // Small messages need places, large ones bytes: both give way in turn.
  for (bool narrower = true; room.bytes() * peers > kBudget; narrower = !narrower) {
    if (room.width == kLeastWidth && room.fragment_bytes == kLeastBytes) {
      break;
    }
    if ((narrower && room.width > kLeastWidth) || room.fragment_bytes == kLeastBytes) {
      room.width /= 2;
    } else {
      room.fragment_bytes /= 2;
    }
  }
  room.fragment_bytes = std::min(room.fragment_bytes, largest);
  return room;
}

}  // namespace ronde::transport
