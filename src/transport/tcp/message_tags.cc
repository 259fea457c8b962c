#include "transport/tcp/message_tags.h"

#include <sodium/core.h>
#include <sodium/utils.h>

#include <cstring>

#include "checksum/checksum.h"
#include "transport/tcp/poly1305.h"

namespace ronde::transport {

namespace {

static_assert(MessageTags::kMost == Poly1305::kTagBytes);

/// Where the key stream for a message's bytes begins, in blocks of 64 bytes; those before are for its tags.
constexpr std::uint32_t kFirstBlock = 1;

bool is_keyed(Integrity integrity) { return integrity == Integrity::mac || integrity == Integrity::encrypt; }

}  // namespace

struct MessageTags::State {
  Checksum sum;
  JobKey key;
  std::uint64_t number = 0;  ///< of the message, from 1 on
  /// One for the head, one for the message's bytes.
  std::array<std::byte, 2 * Poly1305::kKeyBytes> keys{};
  Poly1305 mac;

  std::span<const std::byte, Poly1305::kKeyBytes> key_of_head() const {
    return std::span(keys).first<Poly1305::kKeyBytes>();
  }
  std::span<const std::byte, Poly1305::kKeyBytes> key_of_message() const {
    return std::span(keys).last<Poly1305::kKeyBytes>();
  }
  void apply_key_stream(std::uint32_t first_block, std::span<std::byte> bytes) const {
    std::array<std::byte, 12> nonce{};
    std::memcpy(nonce.data(), &number, sizeof number);
    chacha20({key.bytes, nonce}, first_block, bytes);
  }
};

MessageTags::MessageTags(Integrity integrity, const JobKey& key)
    : integrity_(integrity), state_(integrity == Integrity::off ? nullptr : std::make_unique<State>()) {
  if (is_keyed(integrity)) {
    [[maybe_unused]] const int is_new =
        ::sodium_init();  // finds the processor's fast ways; may be called again and by several threads
    state_->key = key;
  }
}
MessageTags::~MessageTags() {
  if (state_ && is_keyed(integrity_)) {
    ::sodium_memzero(state_.get(), sizeof(State));
  }
}
MessageTags::MessageTags(MessageTags&&) noexcept = default;

void MessageTags::begin() {
  if (integrity_ == Integrity::checksum) {
    state_->sum.begin();
  } else if (is_keyed(integrity_)) {
    ++state_->number;
    state_->keys = {};
    state_->apply_key_stream(0, state_->keys);
    state_->mac.begin(state_->key_of_message());
  }
}

void MessageTags::add(std::span<const std::byte> bytes) {
  if (integrity_ == Integrity::checksum) {
    state_->sum.add(bytes);
  } else if (is_keyed(integrity_)) {
    state_->mac.add(bytes);
  }
}

void MessageTags::crypt(std::span<std::byte> message) const { state_->apply_key_stream(kFirstBlock, message); }

std::array<std::byte, MessageTags::kMost> MessageTags::of_message() const {
  std::array<std::byte, kMost> tag{};
  if (integrity_ == Integrity::checksum) {
    const std::uint64_t sum = state_->sum.value();
    std::memcpy(tag.data(), &sum, sizeof sum);
  } else if (is_keyed(integrity_)) {
    tag = state_->mac.tag();
  }
  return tag;
}

std::array<std::byte, MessageTags::kMost> MessageTags::of_head(std::span<const std::byte> head) const {
  std::array<std::byte, kMost> tag{};
  if (integrity_ == Integrity::checksum) {
    const std::uint64_t sum = Checksum::of(head);
    std::memcpy(tag.data(), &sum, sizeof(std::uint32_t));
  } else if (is_keyed(integrity_)) {
    tag = Poly1305::of(state_->key_of_head(), head);
  }
  return tag;
}

bool MessageTags::are_equal(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() && ::sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace ronde::transport
