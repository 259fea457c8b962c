#include "transport/messages/pipe.h"

namespace ronde::transport {

bool Pipe::receive(Channel channel, std::vector<std::byte>& message) {
  if (!arrived_.is_empty() && arrived_.pop(channel, message)) {
    return true;
  }
  for (Channel of = 0; next(of, message);) {
    if (of == channel) {
      may_have_more_ = true;
      return true;
    }
    if (!on_arrival_ || on_arrival_(of)) {
      arrived_.push(of, message);
    }
  }
  may_have_more_ = false;
  return false;
}

/// Two that end at once have sent each other what neither asks for any more: each one's bytes must not wait for room at
/// the other.
bool Pipe::finish() {
  std::vector<std::byte> ignored;
  for (Channel of = 0; next(of, ignored);) {
  }
  return finish_sending();
}

}  // namespace ronde::transport
