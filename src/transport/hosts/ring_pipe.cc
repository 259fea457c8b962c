#include "transport/hosts/ring_pipe.h"

#include <sys/epoll.h>

#include <array>
#include <cstring>

namespace ronde::transport {

namespace {

/// Messages have a header and a payload; what lies in more parts is rare, and copied once more.
constexpr std::size_t kFewParts = 16;

}  // namespace

std::uint32_t RingPipe::events() const { return EPOLLIN; }

void RingPipe::send(Channel channel, Parts message) {
  const std::span<const std::byte> trailer = std::as_bytes(std::span(&channel, 1));
  if (message.size() < kFewParts) {
    std::array<std::span<const std::byte>, kFewParts> parts;
    std::copy(message.begin(), message.end(), parts.begin());
    parts[message.size()] = trailer;
    link_.send_parts(Parts(parts).first(message.size() + 1));
    return;
  }
  std::vector<std::span<const std::byte>> parts(message.begin(), message.end());
  parts.push_back(trailer);
  link_.send_parts(parts);
}

bool RingPipe::next(Channel& channel, std::vector<std::byte>& message) {
  // What the peer stored before its end is seen by a look after the news of it.
  const bool ends = ends_;
  if (!status_.is_ok() || !link_.receive(message)) {
    if (ends) {
      note_end();
    }
    return false;
  }
  if (message.size() < sizeof channel) {
    status_ = Status::error(Code::internal, "a message of a rank of this host has no channel");
    return false;
  }
  std::memcpy(&channel, message.data() + message.size() - sizeof channel, sizeof channel);
  message.resize(message.size() - sizeof channel);
  return true;
}

}  // namespace ronde::transport
