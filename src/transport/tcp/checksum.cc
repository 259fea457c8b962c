#include "transport/tcp/checksum.h"

#define XXH_INLINE_ALL
#ifndef NDEBUG
#define XXH_NO_INLINE_HINTS 1  // GCC cannot inline by force what it optimises lightly
#endif
#include <xxhash.h>

namespace ronde::transport {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { restart(); }
Checksum::~Checksum() = default;

void Checksum::restart() { XXH3_64bits_reset(&state_->hash); }
void Checksum::add(std::span<const std::byte> bytes) { XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size()); }
std::uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->hash); }
std::uint64_t Checksum::of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace ronde::transport
