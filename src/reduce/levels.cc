#include "reduce/levels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"

namespace ronde::reduce {
namespace {

#if defined(__x86_64__)

// __builtin_cpu_supports asks the processor and, for what has registers of its own, whether the operating system saves
// them (XGETBV). The lists are those of the psABI's levels, but for MOVBE and LZCNT, which no processor with the rest
// lacks and not every compiler knows here.

/// Clang 14 has no name for it. Its registers are AVX's, so runs_v3() settles whether they are saved.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool runs_v2() {
  return __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("sse4.2");
}
bool runs_v3() {
  return runs_v2() && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && has_f16c();
}
[[maybe_unused]] bool runs_v4() {
  return runs_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#endif

std::vector<Level> find_levels() {
  std::vector<Level> levels{{"scalar", &level_scalar::table()}};
#if defined(__x86_64__)
  __builtin_cpu_init();
#if !defined(RONDE_ONE_VECTOR_LEVEL)
  if (runs_v2()) {
    levels.push_back({"x86-64-v2", &level_v2::table()});
  }
#endif
  if (runs_v3()) {
    levels.push_back({"x86-64-v3", &level_v3::table()});
  }
#if !defined(RONDE_ONE_VECTOR_LEVEL)
  if (runs_v4()) {
    levels.push_back({"x86-64-v4", &level_v4::table()});
  }
#endif
#elif defined(__aarch64__)
  levels.push_back({"aarch64", &level_aarch64::table()});
#endif
  return levels;
}

}  // namespace

std::span<const Level> runnable_levels() {
  static const auto* const levels = new std::vector<Level>(find_levels());  // never destroyed: engines may outlive it
  return *levels;
}

const Level& choose_level(std::span<const Level> levels, const char* wanted) {
  if (wanted == nullptr || *wanted == '\0') {
    return levels.back();
  }
  std::string names;
  for (const Level& level : levels) {
    if (level.name == wanted) {
      return level;
    }
    names += names.empty() ? "" : ", ";
    names += level.name;
  }
  log(LogLevel::warning, -1,
      "RONDE_CPU_LEVEL is '" + std::string(wanted) + "', which this processor or build does not have; using " +
          std::string(levels.back().name) + " (it has " + names + ")");
  return levels.back();
}

const Level& current_level() {
  static const Level& level = choose_level(runnable_levels(), std::getenv("RONDE_CPU_LEVEL"));
  return level;
}

}  // namespace ronde::reduce
