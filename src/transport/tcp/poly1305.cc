#include "transport/tcp/poly1305.h"

#include <algorithm>
#include <cstring>

#ifdef RONDE_OPENSSL_PRIMITIVES

extern "C" {
// Of libcrypto.a, in OpenSSL 1.1 and 3; its own headers for them are not installed. cmake/dependencies.cmake has tried
// that they are there, poly1305_test.cc that they are what they are taken for.
std::size_t Poly1305_ctx_size(void);
void Poly1305_Init(void* state, const unsigned char key[32]);
void Poly1305_Update(void* state, const unsigned char* bytes, std::size_t size);
void Poly1305_Final(void* state, unsigned char tag[16]);
void ChaCha20_ctr32(unsigned char* out, const unsigned char* in, std::size_t size, const unsigned key[8],
                    const unsigned counter[4]);
}

#else

#include <sodium/crypto_onetimeauth.h>
#include <sodium/crypto_stream_chacha20.h>

#endif

namespace ronde::transport {

namespace {

const unsigned char* plain(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* plain(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

#ifdef RONDE_OPENSSL_PRIMITIVES

std::size_t Poly1305::state_bytes() { return ::Poly1305_ctx_size(); }

void Poly1305::begin(std::span<const std::byte, kKeyBytes> key) {
  ::Poly1305_Init(state_.data(), plain(key.data()));
  in_block_ = 0;
}

/// The assembler code takes eight blocks at once, for 9.5 GB/s in place of 6, where all whole blocks of a call are so
/// many times eight: so what fills a block that was begun, and what is left, are calls of their own.
void Poly1305::add(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 16, kAtOnce = 8 * kBlock;
  const std::size_t filling = std::min((kBlock - in_block_) % kBlock, bytes.size());
  const std::size_t bulk = (bytes.size() - filling) / kAtOnce * kAtOnce;
  for (const std::span<const std::byte> piece :
       {bytes.first(filling), bytes.subspan(filling, bulk), bytes.subspan(filling + bulk)}) {
    if (!piece.empty()) {
      ::Poly1305_Update(state_.data(), plain(piece.data()), piece.size());
    }
  }
  in_block_ = (in_block_ + bytes.size()) % kBlock;
}

Poly1305::Tag Poly1305::tag() const {
  Poly1305 copy = *this;
  Tag tag;
  ::Poly1305_Final(copy.state_.data(), plain(tag.data()));
  return tag;
}

void chacha20(const ChaCha20Stream& stream, std::uint32_t first_block, std::span<std::byte> bytes) {
  if (bytes.empty()) {
    return;
  }
  std::array<unsigned, 8> key;
  std::array<unsigned, 4> counter;
  std::memcpy(key.data(), stream.key.data(), sizeof key);
  counter[0] = first_block;
  std::memcpy(&counter[1], stream.nonce.data(), stream.nonce.size());
  ::ChaCha20_ctr32(plain(bytes.data()), plain(bytes.data()), bytes.size(), key.data(), counter.data());
}

#else

namespace {

static_assert(sizeof(crypto_onetimeauth_state) <= Poly1305::kStateBytes);
static_assert(Poly1305::kTagBytes == crypto_onetimeauth_BYTES && Poly1305::kKeyBytes == crypto_onetimeauth_KEYBYTES);

crypto_onetimeauth_state* of_sodium(std::byte* state) { return reinterpret_cast<crypto_onetimeauth_state*>(state); }

}  // namespace

std::size_t Poly1305::state_bytes() { return sizeof(crypto_onetimeauth_state); }

void Poly1305::begin(std::span<const std::byte, kKeyBytes> key) {
  ::crypto_onetimeauth_init(of_sodium(state_.data()), plain(key.data()));
}

void Poly1305::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) {
    ::crypto_onetimeauth_update(of_sodium(state_.data()), plain(bytes.data()), bytes.size());
  }
}

Poly1305::Tag Poly1305::tag() const {
  Poly1305 copy = *this;
  Tag tag;
  ::crypto_onetimeauth_final(of_sodium(copy.state_.data()), plain(tag.data()));
  return tag;
}

void chacha20(const ChaCha20Stream& stream, std::uint32_t first_block, std::span<std::byte> bytes) {
  if (!bytes.empty()) {  // its address may be null, which libsodium does not take
    ::crypto_stream_chacha20_ietf_xor_ic(plain(bytes.data()), plain(bytes.data()), bytes.size(),
                                         plain(stream.nonce.data()), first_block, plain(stream.key.data()));
  }
}

#endif

Poly1305::Tag Poly1305::of(std::span<const std::byte, kKeyBytes> key, std::span<const std::byte> bytes) {
  Poly1305 mac;
  mac.begin(key);
  mac.add(bytes);
  return mac.tag();
}

}  // namespace ronde::transport
