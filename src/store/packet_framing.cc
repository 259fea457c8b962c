#include "store/packet_framing.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ronde::store {

namespace {

using Length = std::uint32_t;

Length length_of(std::span<const std::byte> framed) {
  Length length = 0;
  std::memcpy(&length, framed.data(), sizeof length);
  return length;
}

}  // namespace

void PacketFraming::put(std::span<const std::byte> packet) {
  const auto length = static_cast<Length>(packet.size() + seal_bytes());
  outgoing_.resize(sizeof length + length);
  std::memcpy(outgoing_.data(), &length, sizeof length);
  if (seal_) {
    seal_->seal(packet, std::span(outgoing_).subspan(sizeof length));
  } else {
    std::copy(packet.begin(), packet.end(), outgoing_.begin() + sizeof length);
  }
}

void PacketFraming::note_sent(std::size_t bytes) {
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(bytes));
}

std::optional<std::size_t> PacketFraming::missing(std::size_t limit) const {
  if (incoming_.size() < sizeof(Length)) {
    return sizeof(Length) - incoming_.size();
  }
  const Length length = length_of(incoming_);
  if (length < seal_bytes() || length > limit + seal_bytes()) {
    return std::nullopt;
  }
  return sizeof length + length - incoming_.size();
}

bool PacketFraming::take(std::vector<std::byte>& packet) {
  const std::span<const std::byte> bytes = std::span(incoming_).subspan(sizeof(Length));
  packet.resize(bytes.size() - seal_bytes());
  if (!seal_) {
    std::copy(bytes.begin(), bytes.end(), packet.begin());
  } else if (!seal_->open(bytes, packet)) {
    return false;
  }
  incoming_.clear();
  return true;
}

}  // namespace ronde::store
