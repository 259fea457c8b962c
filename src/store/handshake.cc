#include "store/handshake.h"

#include <sodium/crypto_generichash.h>
#include <sodium/crypto_verify_32.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace ronde::store {

namespace {

constexpr std::string_view kMagic = "RONDE-S1";
static_assert(kMagic.size() + sizeof(Nonce) == kHelloBytes);

const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

}  // namespace

Mac prove(const JobKey& key, Role role, const Nonce& client, const Nonce& server) {
  // One byte tells the roles apart; everything has a fixed length, so no two inputs read alike.
  std::array<std::byte, 1 + 2 * sizeof(Nonce)> message;
  message[0] = role == Role::server ? std::byte{'s'} : std::byte{'c'};
  std::memcpy(message.data() + 1, client.data(), client.size());
  std::memcpy(message.data() + 1 + client.size(), server.data(), server.size());
  Mac mac;
  ::crypto_generichash(reinterpret_cast<unsigned char*>(mac.data()), mac.size(), raw(message.data()), message.size(),
                       raw(key.bytes.data()), key.bytes.size());
  return mac;
}

bool verify(const JobKey& key, Role role, const Nonce& client, const Nonce& server, const Mac& proof) {
  static_assert(sizeof(Mac) == 32);
  const Mac expected = prove(key, role, client, server);
  return ::crypto_verify_32(raw(expected.data()), raw(proof.data())) == 0;
}

JobKey sealing_key(const JobKey& key, Role role, const Nonce& client, const Nonce& server) {
  std::vector<std::byte> purpose{role == Role::server ? std::byte{'S'} : std::byte{'C'}};
  purpose.insert(purpose.end(), client.begin(), client.end());
  purpose.insert(purpose.end(), server.begin(), server.end());
  return derive(key, purpose);
}

JobKey derive(const JobKey& key, std::span<const std::byte> purpose) {
  JobKey made;
  ::crypto_generichash(reinterpret_cast<unsigned char*>(made.bytes.data()), made.bytes.size(), raw(purpose.data()),
                       purpose.size(), raw(key.bytes.data()), key.bytes.size());
  return made;
}

std::array<std::byte, kHelloBytes> encode_hello(const Nonce& client) {
  std::array<std::byte, kHelloBytes> frame;
  std::memcpy(frame.data(), kMagic.data(), kMagic.size());
  std::memcpy(frame.data() + kMagic.size(), client.data(), client.size());
  return frame;
}

bool decode_hello(std::span<const std::byte> frame, Nonce& client) {
  if (frame.size() != kHelloBytes || std::memcmp(frame.data(), kMagic.data(), kMagic.size()) != 0) {
    return false;
  }
  std::memcpy(client.data(), frame.data() + kMagic.size(), client.size());
  return true;
}

std::array<std::byte, kChallengeBytes> encode_challenge(const Nonce& server, const Mac& proof) {
  std::array<std::byte, kChallengeBytes> frame;
  std::memcpy(frame.data(), server.data(), server.size());
  std::memcpy(frame.data() + server.size(), proof.data(), proof.size());
  return frame;
}

bool decode_challenge(std::span<const std::byte> frame, Nonce& server, Mac& proof) {
  if (frame.size() != kChallengeBytes) {
    return false;
  }
  std::memcpy(server.data(), frame.data(), server.size());
  std::memcpy(proof.data(), frame.data() + server.size(), proof.size());
  return true;
}

bool decode_proof(std::span<const std::byte> frame, Mac& proof) {
  if (frame.size() != kProofBytes) {
    return false;
  }
  std::memcpy(proof.data(), frame.data(), proof.size());
  return true;
}

}  // namespace ronde::store
