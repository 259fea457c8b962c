#include "transport/hosts/ring_pipe.h"

#include <sys/epoll.h>

#include <cstring>

namespace ronde::transport {

std::uint32_t RingPipe::events() const { return EPOLLIN; }

/// Until the next call.
Parts RingPipe::with_trailer(Channel channel, Parts message) {
  link_.keep_lent();
  trailer_ = channel;
  parts_.assign(message.begin(), message.end());
  parts_.push_back(std::as_bytes(std::span(&trailer_, 1)));
  return parts_;
}

void RingPipe::send(Channel channel, Parts message) { link_.send_parts(with_trailer(channel, message)); }

void RingPipe::send_lent(Channel channel, Parts message) { link_.send_lent(with_trailer(channel, message)); }

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
