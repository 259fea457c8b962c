// Sleeping on a 32-bit word until another thread of this process changes it.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace ronde {

enum class FutexResult { woken, timeout, interrupted };

/// Returns at once (woken) if the word is not `expected`. `limit` in nanoseconds, kNever for none.
FutexResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Nanoseconds limit);
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace ronde
