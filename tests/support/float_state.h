// Sets the calling thread's floating-point unit as programs do: torch.set_flush_denormal(), fesetround(),
// feenableexcept().
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ronde::test {

#if defined(__x86_64__)
inline std::uint32_t float_state() { return __builtin_ia32_stmxcsr(); }
inline void set_float_state(std::uint32_t state) { __builtin_ia32_ldmxcsr(state); }
/// What of float_state() is set by programs; the rest tells what has happened.
inline constexpr std::uint32_t kFloatControl = 0xffffffc0;
struct FloatState {
  std::string_view name;
  std::uint32_t word;
};
inline constexpr std::array kFloatStates{
    FloatState{"default", 0x1f80},      FloatState{"subnormal numbers are zero", 0x9fc0},
    FloatState{"rounds down", 0x3f80},  FloatState{"rounds up", 0x5f80},
    FloatState{"towards zero", 0x7f80}, FloatState{"traps", 0x1100},
    FloatState{"all at once", 0xf140},
};
#elif defined(__aarch64__)
inline std::uint64_t float_state() {
  std::uint64_t state = 0;
  asm volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
inline void set_float_state(std::uint64_t state) { asm volatile("msr fpcr, %0" ::"r"(state)); }
inline constexpr std::uint64_t kFloatControl = ~std::uint64_t{0};
struct FloatState {
  std::string_view name;
  std::uint64_t word;
};
inline constexpr std::array kFloatStates{
    FloatState{"default", 0},
    FloatState{"subnormal numbers are zero", 1u << 24},
    FloatState{"rounds down", 2u << 22},
    FloatState{"rounds up", 1u << 22},
    FloatState{"towards zero", 3u << 22},
};
#endif

/// Until its end the thread has this state.
class WithFloatState {
 public:
  explicit WithFloatState(const FloatState& state) { set_float_state(state.word); }
  ~WithFloatState() { set_float_state(before_); }
  WithFloatState(const WithFloatState&) = delete;
  WithFloatState& operator=(const WithFloatState&) = delete;

 private:
  const decltype(float_state()) before_ = float_state();
};

}  // namespace ronde::test
