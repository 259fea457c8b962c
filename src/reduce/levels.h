// The processor levels that were compiled in and that this processor can run. Internal to src/reduce.
#pragma once

#include <span>
#include <string_view>

#include "reduce/kernel_table.h"

namespace ronde::reduce {

struct Level {
  std::string_view name;
  const KernelTable* table;
};

/// "scalar" first, the best last. Never empty.
std::span<const Level> runnable_levels();
/// The level that reduce() uses; decided at the first call.
const Level& current_level();
/// Which of `levels` a value of RONDE_CPU_LEVEL names; the last if it is null or empty or names none of them.
const Level& choose_level(std::span<const Level> levels, const char* wanted);

}  // namespace ronde::reduce
