// Flag words of replay: (epoch, instance) in 64 bits. The epoch stands for the plan and makes every older word
// harmless: a word of another epoch reads as instance 0.
#pragma once

#include <cstdint>

#include "agreement/traps.h"

namespace ronde::agreement {

using Flag = std::uint64_t;

inline constexpr int kInstanceBits = 40;  ///< 32 would be used up in twenty minutes at 0.3 us an instance
inline constexpr std::uint64_t kMaxInstance = (std::uint64_t{1} << kInstanceBits) - 1;
inline constexpr std::uint32_t kMaxEpoch = (1u << (64 - kInstanceBits)) - 1;

constexpr Flag make_flag(std::uint32_t epoch, std::uint64_t instance) {
  return static_cast<std::uint64_t>(epoch) << kInstanceBits | instance;
}

/// The instance that a word shows to a reader in this epoch.
constexpr std::uint64_t instance_in(Flag word, std::uint32_t epoch) {
  return word >> kInstanceBits == epoch || broken(Trap::no_epoch_in_flag) ? word & kMaxInstance : 0;
}

/// Whether a peer has come at least as far as `flag`, which is the reader's own.
constexpr bool reached(Flag word, Flag flag) {
  return instance_in(word, static_cast<std::uint32_t>(flag >> kInstanceBits)) >= (flag & kMaxInstance);
}

}  // namespace ronde::agreement
