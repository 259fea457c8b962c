#include "transport/tcp/message_tags.h"

#include <sodium/core.h>
#include <sodium/crypto_onetimeauth.h>
#include <sodium/crypto_stream_chacha20.h>
#include <sodium/utils.h>

#include <cstring>

#include "checksum/checksum.h"

namespace ronde::transport {

namespace {

static_assert(MessageTags::kMost == crypto_onetimeauth_BYTES);
static_assert(kJobKeyBytes == crypto_stream_chacha20_ietf_KEYBYTES);

using StreamNonce = std::array<unsigned char, crypto_stream_chacha20_ietf_NONCEBYTES>;

/// Where the key stream for a message's bytes begins, in blocks of 64 bytes; those before are for its tags.
constexpr std::uint32_t kFirstBlock = 1;

const unsigned char* sodium_bytes(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* sodium_bytes(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

bool is_keyed(Integrity integrity) { return integrity == Integrity::mac || integrity == Integrity::encrypt; }

}  // namespace

struct MessageTags::State {
  Checksum sum;
  JobKey key;
  std::uint64_t number = 0;  ///< of the message, from 1 on
  /// One for the head, one for the message's bytes.
  std::array<std::array<std::byte, crypto_onetimeauth_KEYBYTES>, 2> keys{};
  crypto_onetimeauth_state mac;

  StreamNonce nonce() const {
    StreamNonce made{};
    std::memcpy(made.data(), &number, sizeof number);
    return made;
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
    ::crypto_stream_chacha20_ietf(sodium_bytes(state_->keys[0].data()), sizeof state_->keys, state_->nonce().data(),
                                  sodium_bytes(state_->key.bytes.data()));
    ::crypto_onetimeauth_init(&state_->mac, sodium_bytes(state_->keys[1].data()));
  }
}

void MessageTags::add(std::span<const std::byte> bytes) {
  if (integrity_ == Integrity::checksum) {
    state_->sum.add(bytes);
  } else if (is_keyed(integrity_) && !bytes.empty()) {
    ::crypto_onetimeauth_update(&state_->mac, sodium_bytes(bytes.data()), bytes.size());
  }
}

void MessageTags::crypt(std::span<std::byte> message) const {
  if (message.empty()) {
    return;  // its address may be null, which libsodium does not take
  }
  ::crypto_stream_chacha20_ietf_xor_ic(sodium_bytes(message.data()), sodium_bytes(message.data()), message.size(),
                                       state_->nonce().data(), kFirstBlock, sodium_bytes(state_->key.bytes.data()));
}

std::array<std::byte, MessageTags::kMost> MessageTags::of_message() const {
  std::array<std::byte, kMost> tag{};
  if (integrity_ == Integrity::checksum) {
    const std::uint64_t sum = state_->sum.value();
    std::memcpy(tag.data(), &sum, sizeof sum);
  } else if (is_keyed(integrity_)) {
    crypto_onetimeauth_state mac = state_->mac;
    ::crypto_onetimeauth_final(&mac, sodium_bytes(tag.data()));
  }
  return tag;
}

std::array<std::byte, MessageTags::kMost> MessageTags::of_head(std::span<const std::byte> head) const {
  std::array<std::byte, kMost> tag{};
  if (integrity_ == Integrity::checksum) {
    const std::uint64_t sum = Checksum::of(head);
    std::memcpy(tag.data(), &sum, sizeof(std::uint32_t));
  } else if (is_keyed(integrity_)) {
    ::crypto_onetimeauth(sodium_bytes(tag.data()), sodium_bytes(head.data()), head.size(),
                         sodium_bytes(state_->keys[0].data()));
  }
  return tag;
}

bool MessageTags::are_equal(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() && ::sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace ronde::transport
