// MessageHead: what stands before a message on a stream.
//
// It is a u32, the message's length, and a u64, its channel, little-endian. If there are tags (message_tags.h) two
// follow: that of the message's bytes, and that of this head so far. So what has changed on the way is seen before a
// length is believed, and before a message is given to anybody.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/integrity.h"
#include "transport/messages/pipe.h"
#include "transport/tcp/message_tags.h"

namespace ronde::transport {

/// A value; one thread.
class MessageHead {
 public:
  explicit MessageHead(Integrity integrity) : integrity_(integrity) {}

  /// As it travels: to be sent, or for what has come to be written to. Its length depends on the integrity only.
  std::span<std::byte> bytes() { return std::span(bytes_).first(size()); }
  std::size_t size() const { return tagged() + MessageTags::head_bytes(integrity_); }

  /// Makes the head of a message that is to be sent, and looks at each of its bytes if there are tags. Requires:
  /// `tags.begin()` was called for the message.
  void describe(Pipe::Channel channel, Parts message, MessageTags& tags);

  /// Of a head that has come: whether it is what the sender has made. Always true without tags. Requires:
  /// `tags.begin()` was called for the message.
  bool is_intact(const MessageTags& tags) const;
  /// Requires: is_intact(). The length may be any.
  std::size_t length() const {
    std::uint32_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    return length;
  }
  Pipe::Channel channel() const {
    Pipe::Channel channel = 0;
    std::memcpy(&channel, bytes_.data() + sizeof(std::uint32_t), sizeof channel);
    return channel;
  }
  /// Whether the message's bytes, which were added to `tags`, are what the sender has sent. Always true without tags.
  bool matches(const MessageTags& tags) const;

 private:
  static constexpr std::size_t kPlain = sizeof(std::uint32_t) + sizeof(Pipe::Channel);
  static constexpr std::size_t kMost = kPlain + 2 * MessageTags::kMost;

  /// What the head's own tag is of.
  std::size_t tagged() const { return kPlain + MessageTags::message_bytes(integrity_); }

  const Integrity integrity_;
  std::array<std::byte, kMost> bytes_{};
};

}  // namespace ronde::transport
