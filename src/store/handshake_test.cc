#include "store/handshake.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace ronde::store {
namespace {

Nonce fresh_nonce() {
  Nonce nonce;
  EXPECT_TRUE(fill_random(nonce));
  return nonce;
}

TEST(Handshake, AProofHoldsForItsKeyRoleAndNoncesOnly) {
  const JobKey key = make_job_key().value();
  const Nonce client = fresh_nonce();
  const Nonce server = fresh_nonce();
  const Mac proof = prove(key, Role::server, client, server);
  EXPECT_TRUE(verify(key, Role::server, client, server, proof));
  EXPECT_FALSE(verify(make_job_key().value(), Role::server, client, server, proof));
  EXPECT_FALSE(verify(key, Role::client, client, server, proof)) << "a challenge sent back must prove nothing";
  EXPECT_FALSE(verify(key, Role::server, fresh_nonce(), server, proof));
  EXPECT_FALSE(verify(key, Role::server, client, fresh_nonce(), proof));
  EXPECT_FALSE(verify(key, Role::server, server, client, proof));
  Mac altered = proof;
  altered[31] ^= std::byte{1};
  EXPECT_FALSE(verify(key, Role::server, client, server, altered));
}

TEST(Handshake, FramesComeBackAndNothingElseIsTaken) {
  const Nonce nonce = fresh_nonce();
  const auto hello = encode_hello(nonce);
  Nonce got;
  ASSERT_TRUE(decode_hello(hello, got));
  EXPECT_EQ(got, nonce);

  std::vector<std::byte> longer(hello.begin(), hello.end());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_hello(longer, got));
  EXPECT_FALSE(decode_hello(std::span(hello).first(hello.size() - 1), got));
  EXPECT_FALSE(decode_hello({}, got));
  auto other_version = hello;
  other_version[7] = std::byte{'2'};
  EXPECT_FALSE(decode_hello(other_version, got));

  const Mac mac = prove(make_job_key().value(), Role::server, nonce, nonce);
  const auto challenge = encode_challenge(nonce, mac);
  Mac got_mac;
  ASSERT_TRUE(decode_challenge(challenge, got, got_mac));
  EXPECT_EQ(got_mac, mac);
  EXPECT_FALSE(decode_challenge(std::span(challenge).first(63), got, got_mac));
  EXPECT_TRUE(decode_proof(mac, got_mac));
  EXPECT_FALSE(decode_proof(challenge, got_mac));
}

}  // namespace
}  // namespace ronde::store
