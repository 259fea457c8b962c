#include "transport/tcp/byte_pipe.h"

#include <algorithm>
#include <array>

#include "transport/tcp/message_head.h"

namespace ronde::transport {

BytePipe::BytePipe(int peer, Integrity integrity, const JobKey& sending, const JobKey& receiving)
    : tags_(integrity, sending), incoming_(peer, MessageTags(integrity, receiving)) {}

// ---- Sending

/// How many bytes of the message are on their way; what is left of its head is kept. Requires: nothing is lent, and
/// tags_ has begun the message.
std::size_t BytePipe::send_some(Channel channel, Parts message) {
  MessageHead head(tags_.integrity());
  head.describe(channel, message, tags_);
  std::array<std::span<const std::byte>, kMostParts> parts;
  parts[0] = head.bytes();
  const std::size_t count = std::min(message.size(), kMostParts - 1);
  std::copy_n(message.begin(), count, parts.begin() + 1);
  const std::size_t sent = outgoing_.is_empty() ? write(std::span(parts).first(count + 1)) : 0;
  if (!can_send_) {
    return head.length();
  }
  const std::size_t of_head = std::min(sent, parts[0].size());
  outgoing_.keep(parts[0].subspan(of_head));
  return sent - of_head;
}

void BytePipe::send(Channel channel, Parts message) {
  if (!can_send_) {
    return;
  }
  keep_lent();
  tags_.begin();
  if (tags_.integrity() == Integrity::encrypt) {
    send_encrypted(channel, message);
  } else {
    keep_rest(message, send_some(channel, message));
  }
}

void BytePipe::send_encrypted(Channel channel, Parts message) {
  encrypted_.clear();
  for (const std::span<const std::byte> part : message) {
    encrypted_.insert(encrypted_.end(), part.begin(), part.end());
  }
  tags_.crypt(encrypted_);
  const std::span<const std::byte> all = encrypted_;
  keep_rest(Parts(&all, 1), send_some(channel, Parts(&all, 1)));
}

/// Of a message of which so many bytes are on their way.
void BytePipe::keep_rest(Parts message, std::size_t sent) {
  for (const std::span<const std::byte> part : message) {
    const std::size_t gone = std::min(sent, part.size());
    outgoing_.keep(part.subspan(gone));
    sent -= gone;
  }
}

void BytePipe::send_lent(Channel channel, Parts message) {
  if (tags_.integrity() == Integrity::encrypt) {
    return send(channel, message);
  }
  if (!can_send_) {
    return;
  }
  keep_lent();
  tags_.begin();
  std::size_t sent = send_some(channel, message);
  for (std::size_t i = 0; i < message.size(); ++i) {
    const std::span<const std::byte> rest = message[i].subspan(std::min(sent, message[i].size()));
    sent -= message[i].size() - rest.size();
    if (i == 0) {
      outgoing_.keep(rest);
    } else if (!rest.empty()) {
      outgoing_.lend(rest);
    }
  }
}

void BytePipe::drop_lent() {
  if (outgoing_.has_lent()) {
    stop_sending();
    break_off();
  }
}

bool BytePipe::flush() {
  return outgoing_.flush([this](Parts parts) { return write(parts); });
}

void BytePipe::stop_sending() {
  can_send_ = false;
  outgoing_.drop();
}

// ---- Receiving

bool BytePipe::next(Channel& of, std::vector<std::byte>& message) {
  while (!incoming_.next(of, message)) {
    if (!incoming_.status() || !read_more()) {
      return false;
    }
  }
  return true;
}

}  // namespace ronde::transport
