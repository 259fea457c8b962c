#include "transport/tcp/poly1305.h"

#include <gtest/gtest.h>
#include <sodium/crypto_onetimeauth.h>
#include <sodium/crypto_stream_chacha20.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "transport/tcp/testing/numbers.h"

namespace ronde::transport {
namespace {

/// Around a block of 16 or 64 bytes, and of as many as registers of 16, 32 and 64 bytes take at once.
constexpr std::size_t kSizes[] = {0,   1,   15,  16,   17,   31,   32,   33,   63,    64,    65,    127,    128,
                                  129, 191, 192, 255, 256, 257,  511,  512,  1023, 1024, 1025,  2047,  4096,  65535,
                                  65536, 65537, 1000003};

const unsigned char* plain(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

void of_libsodium(const std::array<std::byte, 32>& key, std::span<const std::byte> bytes, Poly1305::Tag& tag) {
  ::crypto_onetimeauth(reinterpret_cast<unsigned char*>(tag.data()), plain(bytes.data()), bytes.size(),
                       plain(key.data()));
}

template <std::size_t size>
std::array<std::byte, size> key_of(unsigned seed) {
  std::array<std::byte, size> key;
  std::ranges::copy(random_bytes(size, seed), key.begin());
  return key;
}

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

TEST(Poly1305, IsTheStandards) {  // RFC 8439, 2.5.2
  std::array<std::byte, 32> key;
  std::ranges::copy(from_hex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b"), key.begin());
  const std::string_view text = "Cryptographic Forum Research Group";
  const Poly1305::Tag tag = Poly1305::of(key, std::as_bytes(std::span(text)));
  EXPECT_TRUE(std::ranges::equal(tag, from_hex("a8061dc1305136c6c22b8baf0c0127a9")));
}

TEST(Poly1305, IsLibsodiumsInAnyPieces) {
  ASSERT_LE(Poly1305::state_bytes(), Poly1305::kStateBytes);
  const std::vector<std::byte> all = random_bytes(1000003, 1);
  for (unsigned seed = 0; seed < 3; ++seed) {
    const std::array<std::byte, 32> key = key_of<32>(seed + 10);
    for (const std::size_t size : kSizes) {
      Poly1305::Tag expected;
      of_libsodium(key, std::span(all).first(size), expected);
      EXPECT_EQ(Poly1305::of(key, std::span(all).first(size)), expected) << size;
      for (const std::size_t piece : {std::size_t{7}, std::size_t{40}, std::size_t{100}, std::size_t{65536}}) {
        Poly1305 mac;
        mac.begin(key);
        for (std::size_t at = 0; at < size; at += piece) {
          mac.add(std::span(all).subspan(at, std::min(piece, size - at)));
          if (at == 0) {
            EXPECT_EQ(mac.tag(), Poly1305::of(key, std::span(all).first(std::min(piece, size)))) << "asked between";
          }
        }
        EXPECT_EQ(mac.tag(), expected) << size << " by " << piece;
      }
    }
  }
}

/// Where the sum is as large as it gets, so that carries run through.
TEST(Poly1305, LargestNumbers) {
  const std::vector<std::byte> all(4096, std::byte{0xff});
  std::array<std::byte, 32> key;
  key.fill(std::byte{0xff});
  for (const std::size_t size : kSizes) {
    if (size <= all.size()) {
      Poly1305::Tag expected;
      of_libsodium(key, std::span(all).first(size), expected);
      EXPECT_EQ(Poly1305::of(key, std::span(all).first(size)), expected) << size;
    }
  }
}

TEST(ChaCha20, IsLibsodiumsFromAnyBlockOn) {
  const std::vector<std::byte> all = random_bytes(1000003, 2);
  const std::array<std::byte, 32> key = key_of<32>(3);
  const std::array<std::byte, 12> nonce = key_of<12>(4);
  for (const std::size_t size : kSizes) {
    for (const std::uint32_t block : {0U, 1U, 2U, 70000U}) {
      std::vector<std::byte> expected(size), found(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
      if (size != 0) {
        ::crypto_stream_chacha20_ietf_xor_ic(reinterpret_cast<unsigned char*>(expected.data()), plain(all.data()), size,
                                             plain(nonce.data()), block, plain(key.data()));
      }
      chacha20({key, nonce}, block, found);
      EXPECT_TRUE(found == expected) << size << " from block " << block;
      chacha20({key, nonce}, block, found);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), all.begin())) << size;
    }
  }
}

}  // namespace
}  // namespace ronde::transport
