// How two processes of one job recognise each other on a socket, before anything else from it is read.
//
//   client -> server   Hello      magic, client nonce
//   server -> client   Challenge  server nonce, MAC(key, "server", client nonce, server nonce)
//   client -> server   Proof      MAC(key, "client", client nonce, server nonce)
//
// Both nonces are fresh, so nothing recorded helps a second time; the roles differ, so nothing can be sent back to its
// author. The frames have a fixed size, and the key itself never travels. MAC is keyed BLAKE2b with 32 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/job_key.h"

namespace ronde::store {

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

enum class Role { server, client };

inline constexpr std::size_t kHelloBytes = 8 + sizeof(Nonce);
inline constexpr std::size_t kChallengeBytes = sizeof(Nonce) + sizeof(Mac);
inline constexpr std::size_t kProofBytes = sizeof(Mac);

/// What `role` sends to show that it has the key.
Mac prove(const JobKey& key, Role role, const Nonce& client, const Nonce& server);
/// Whether `proof` is that MAC; takes the same time for every wrong proof.
bool verify(const JobKey& key, Role role, const Nonce& client, const Nonce& server, const Mac& proof);

/// Of what `role` sends on this connection once both have proved themselves.
JobKey sealing_key(const JobKey& key, Role role, const Nonce& client, const Nonce& server);
/// Another key for this purpose, from which the job's key cannot be found.
JobKey derive(const JobKey& key, std::span<const std::byte> purpose);

std::array<std::byte, kHelloBytes> encode_hello(const Nonce& client);
/// False if the frame is not exactly a Hello of this version.
bool decode_hello(std::span<const std::byte> frame, Nonce& client);
std::array<std::byte, kChallengeBytes> encode_challenge(const Nonce& server, const Mac& proof);
bool decode_challenge(std::span<const std::byte> frame, Nonce& server, Mac& proof);
bool decode_proof(std::span<const std::byte> frame, Mac& proof);

}  // namespace ronde::store
