// ChannelQueues: messages that have come through a pipe before their channel asked for them, in a queue for each
// channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ronde::transport {

/// One thread at a time.
class ChannelQueues {
 public:
  using Channel = std::uint64_t;

  bool is_empty() const { return queues_.empty(); }
  /// Something is kept for the channel.
  bool has(Channel channel) const { return queues_.contains(channel); }
  /// Leaves `message` empty.
  void push(Channel channel, std::vector<std::byte>& message) {
    queues_[channel].push_back(std::exchange(message, {}));
  }
  /// The channel's first; false if there is none.
  bool pop(Channel channel, std::vector<std::byte>& message) {
    const auto found = queues_.find(channel);
    if (found == queues_.end()) {
      return false;
    }
    message = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) {
      queues_.erase(found);
    }
    return true;
  }
  /// Nobody will ask for the channel's any more.
  void forget(Channel channel) { queues_.erase(channel); }

 private:
  std::unordered_map<Channel, std::deque<std::vector<std::byte>>> queues_;  ///< none is empty
};

}  // namespace ronde::transport
