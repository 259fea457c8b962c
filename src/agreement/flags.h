// Flag words of replay: (epoch, instance) in 64 bits, see types/instance_word.h.
#pragma once

#include <cstdint>

#include "agreement/traps.h"
#include "types/instance_word.h"

namespace ronde::agreement {

using Flag = std::uint64_t;

/// 32 bits for the instance would be used up in twenty minutes at 0.3 us each.
using FlagWord = InstanceWord<Flag, 40, EpochFault>;

inline constexpr std::uint64_t kMaxInstance = FlagWord::kMaxInstance;
inline constexpr std::uint32_t kMaxEpoch = FlagWord::kMaxEpoch;

constexpr Flag make_flag(std::uint32_t epoch, std::uint64_t instance) { return FlagWord::encode(epoch, instance); }

/// The instance that a word shows to a reader in this epoch.
constexpr std::uint64_t instance_in(Flag word, std::uint32_t epoch) { return FlagWord::instance(word, epoch); }

/// Whether a peer has come at least as far as `flag`, which is the reader's own.
constexpr bool reached(Flag word, Flag flag) { return FlagWord::has_reached(word, flag); }

}  // namespace ronde::agreement
