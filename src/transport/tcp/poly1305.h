// Poly1305 and ChaCha20 (RFC 8439), as fast as a well-kept library has them.
//
// That is OpenSSL's assembler code, with registers of 32 and 64 bytes: 11 GB/s of MACs and 5 of encryption where
// libsodium has 3.4 and 2.3, in which a MAC would cost as much as a link of 10 Gbit/s does. Of OpenSSL's static archive
// only these functions are taken (no state of a process, no configuration, nothing that ends with the process); where
// there is no such archive, libsodium's do. Both give the same bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ronde::transport {

/// Of bytes that come in pieces, under a key that is used once. One thread.
class Poly1305 {
 public:
  static constexpr std::size_t kKeyBytes = 32;
  static constexpr std::size_t kTagBytes = 16;
  using Tag = std::array<std::byte, kTagBytes>;

  /// Of nothing yet.
  void begin(std::span<const std::byte, kKeyBytes> key);
  void add(std::span<const std::byte> bytes);
  /// Of what was added; more may be added. Requires: begin().
  Tag tag() const;

  static Tag of(std::span<const std::byte, kKeyBytes> key, std::span<const std::byte> bytes);

  /// What a state takes at most, and takes.
  static constexpr std::size_t kStateBytes = 512;
  static std::size_t state_bytes();

 private:
  alignas(64) std::array<std::byte, kStateBytes> state_;
  [[maybe_unused]] std::size_t in_block_ = 0;  ///< of the last block so many bytes have come
};

struct ChaCha20Stream {
  std::span<const std::byte, 32> key;
  std::span<const std::byte, 12> nonce;
};
/// Encrypts or decrypts in place by the key stream from block `first_block` on, of 64 bytes each. Requires: fewer than
/// 2^32 blocks.
void chacha20(const ChaCha20Stream& stream, std::uint32_t first_block, std::span<std::byte> bytes);

}  // namespace ronde::transport
