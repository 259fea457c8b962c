#include "transport/messages/pipe.h"

namespace ronde::transport {

bool Pipe::receive(Channel channel, std::vector<std::byte>& message) {
  if (!arrived_.is_empty() && arrived_.pop(channel, message)) {
    return true;
  }
  for (Channel of = 0; next(of, message);) {
    if (of == channel) {
      return true;
    }
    if (!on_arrival_ || on_arrival_(of)) {
      arrived_.push(of, message);
    }
  }
  return false;
}

}  // namespace ronde::transport
