// InstanceWord: how far a rank is in replay, in one word: the epoch in its high bits, the instance in its low ones. The
// epoch stands for the plan and makes every older word harmless: to a reader in another epoch it shows instance 0.
//
// One codec for what shared memory holds (collectives/persistent/bucket.h), for agreement and its histories
// (agreement/flags.h) and for the exhaustive model (agreement/model), which counts in words of eight bits.
#pragma once

#include <cstdint>

namespace ronde {

struct NoFault {
  static constexpr bool ignores_epoch() { return false; }
};

/// `Fault`: what the tests of agreement break on purpose.
template <typename Word, int kBits, typename Fault = NoFault>
struct InstanceWord {
  static constexpr int kInstanceBits = kBits;
  static constexpr Word kMaxInstance = static_cast<Word>((std::uint64_t{1} << kBits) - 1);
  static constexpr std::uint32_t kMaxEpoch = static_cast<std::uint32_t>(static_cast<Word>(~Word{0}) >> kBits);

  static constexpr Word encode(std::uint32_t epoch, std::uint64_t instance) {
    return static_cast<Word>(std::uint64_t{epoch} << kBits | instance);
  }
  /// The instance that a word shows to a reader in this epoch.
  static constexpr Word instance(Word word, std::uint32_t epoch) {
    return word >> kBits == epoch || Fault::ignores_epoch() ? static_cast<Word>(word & kMaxInstance) : Word{0};
  }
  /// Whether the word is of the same epoch as `wanted` and of its instance or a later one.
  static constexpr bool has_reached(Word word, Word wanted) {
    if (Fault::ignores_epoch()) {
      return (word & kMaxInstance) >= (wanted & kMaxInstance);
    }
    // Below `wanted` the difference wraps, and a later epoch is too far above.
    return static_cast<Word>(word - wanted) <= static_cast<Word>(kMaxInstance - (wanted & kMaxInstance));
  }
};

}  // namespace ronde
