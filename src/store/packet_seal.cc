#include "store/packet_seal.h"

#include <sodium/crypto_secretbox.h>

#include <array>
#include <cstring>

namespace ronde::store {

namespace {

static_assert(PacketSeal::kBytes == crypto_secretbox_MACBYTES);

using BoxNonce = std::array<unsigned char, crypto_secretbox_NONCEBYTES>;

/// Of one key no number comes twice: a connection does not last for 2^64 packets.
BoxNonce nonce_of(std::uint64_t number) {
  BoxNonce nonce{};
  std::memcpy(nonce.data(), &number, sizeof number);
  return nonce;
}

unsigned char* box_bytes(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* box_bytes(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

}  // namespace

void PacketSeal::seal(std::span<const std::byte> plain, std::span<std::byte> sealed) {
  ::crypto_secretbox_easy(box_bytes(sealed.data()), box_bytes(plain.data()), plain.size(), nonce_of(sent_++).data(),
                          box_bytes(sending_.bytes.data()));
}

bool PacketSeal::open(std::span<const std::byte> sealed, std::span<std::byte> plain) {
  return ::crypto_secretbox_open_easy(box_bytes(plain.data()), box_bytes(sealed.data()), sealed.size(),
                                      nonce_of(received_++).data(), box_bytes(receiving_.bytes.data())) == 0;
}

}  // namespace ronde::store
