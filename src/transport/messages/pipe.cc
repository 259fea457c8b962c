#include "transport/messages/pipe.h"

#include <utility>

namespace ronde::transport {

bool Pipe::receive(Channel channel, std::vector<std::byte>& message) {
  if (!arrived_.empty()) {
    if (const auto arrived = arrived_.find(channel); arrived != arrived_.end()) {
      message = std::move(arrived->second.front());
      arrived->second.pop_front();
      if (arrived->second.empty()) {
        arrived_.erase(arrived);
      }
      return true;
    }
  }
  for (Channel of = 0; next(of, message);) {
    if (of == channel) {
      return true;
    }
    if (!on_arrival_ || on_arrival_(of)) {
      arrived_[of].push_back(std::exchange(message, {}));
    }
  }
  return false;
}

}  // namespace ronde::transport
