// MessageHead: what stands before a message on a stream.
//
// It is a u32, the message's length, and a u64, its channel, little-endian. With a checksum two more words follow: a
// u64, the checksum of the message's bytes, and a u32, the low half of the checksum of this head so far. So what has
// changed on the way is seen before a length is believed, and before a message is given to anybody.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/integrity.h"
#include "transport/messages/pipe.h"
#include "transport/tcp/checksum.h"

namespace ronde::transport {

/// A value; one thread.
class MessageHead {
 public:
  explicit MessageHead(Integrity integrity) : integrity_(integrity) {}

  /// As it travels: to be sent, or for what has come to be written to. Its length depends on the integrity only.
  std::span<std::byte> bytes() { return std::span(bytes_).first(size()); }
  std::size_t size() const { return integrity_ == Integrity::off ? kPlain : kWhole; }

  /// Makes the head of a message that is to be sent; looks at each of its bytes if there is a checksum.
  void describe(Pipe::Channel channel, Parts message);

  /// Of a head that has come: whether it is what the sender has made. Always true without a checksum.
  bool is_intact() const;
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
  /// Whether the message's bytes, which have this checksum, are what the sender has sent. Always true without one.
  bool matches(const Checksum& message) const;

 private:
  static constexpr std::size_t kPlain = sizeof(std::uint32_t) + sizeof(Pipe::Channel);
  static constexpr std::size_t kSummed = kPlain + sizeof(std::uint64_t);  ///< what the head's own checksum covers
  static constexpr std::size_t kWhole = kSummed + sizeof(std::uint32_t);

  std::uint32_t own_checksum() const {
    return static_cast<std::uint32_t>(Checksum::of(std::span(bytes_).first(kSummed)));
  }

  const Integrity integrity_;
  std::array<std::byte, kWhole> bytes_{};
};

}  // namespace ronde::transport
