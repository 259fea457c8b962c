// MessageTags: tells of one direction of a connection whether its messages are those that were sent, in that order.
//
// Each message has two tags: one of its bytes, and one of its head, which holds the first, so that a length is believed
// only after the head's tag has been looked at.
//
// With a checksum they are XXH3's, of 64 bits and the low half of that: TCP's own checksum is 16 bits wide, is often
// left to network cards, and does let changed bytes pass. It is no proof against somebody who changes them on purpose.
//
// With a MAC they are Poly1305's (RFC 8439), under keys that are used once: the first block of ChaCha20's key stream
// has one for the head and one for the message's bytes. The stream's key is that of this direction of this connection,
// and its nonce the message's number. So a message that was repeated, left out, moved or sent back has other tags.
// Messages that are encrypted are so with the blocks that follow; the tag is then of the encrypted bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/job_key.h"
#include "transport/integrity.h"

namespace ronde::transport {

/// Both ends of the direction have one, with the same key. One thread.
class MessageTags {
 public:
  static constexpr std::size_t kMost = 16;
  static constexpr std::size_t message_bytes(Integrity integrity) {
    return integrity == Integrity::off ? 0 : integrity == Integrity::checksum ? sizeof(std::uint64_t) : kMost;
  }
  static constexpr std::size_t head_bytes(Integrity integrity) {
    return integrity == Integrity::off ? 0 : integrity == Integrity::checksum ? sizeof(std::uint32_t) : kMost;
  }

  /// `key`: of nothing but this direction of this connection. Needed for MACs only.
  explicit MessageTags(Integrity integrity, const JobKey& key = {});
  ~MessageTags();
  MessageTags(MessageTags&&) noexcept;

  Integrity integrity() const { return integrity_; }

  /// The next message begins.
  void begin();
  /// The message's next bytes; as they travel, if they are encrypted.
  void add(std::span<const std::byte> bytes);
  /// Encrypts all of the message's bytes, or decrypts them. Requires: Integrity::encrypt.
  void crypt(std::span<std::byte> message) const;

  /// Of the bytes that were added: message_bytes() of it count.
  std::array<std::byte, kMost> of_message() const;
  /// Of the head's bytes before its own tag: head_bytes() of it count.
  std::array<std::byte, kMost> of_head(std::span<const std::byte> head) const;

  /// Whether two tags are one; takes the same time wherever they differ.
  static bool are_equal(std::span<const std::byte> one, std::span<const std::byte> other);

 private:
  struct State;
  Integrity integrity_;
  std::unique_ptr<State> state_;
};

}  // namespace ronde::transport
