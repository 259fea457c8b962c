// The state of the processor's floating-point unit that all arithmetic here runs under, whoever calls: the default of
// IEEE 754, that is round to nearest even, subnormal numbers kept, no traps. A program may have set another on any of
// its threads (torch.set_flush_denormal(), fesetround(), feenableexcept()), a thread begins with that of the thread
// which made it, and which thread reduces is chance. The ranks would get different bits.
#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace ronde::reduce {

/// While one lives, its thread computes under the default state; its end restores what was before. Costs a read of the
/// control word where that is the default anyway.
class DefaultArithmetic {
 public:
  DefaultArithmetic() : before_(read()) {
    if ((before_ & kControlBits) != (kDefault & kControlBits)) [[unlikely]] {
      is_other_ = true;
      write(kDefault);
    }
  }
  ~DefaultArithmetic() {
    if (is_other_) [[unlikely]] {
      write(before_);
    }
  }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

  // "memory" in the statements below: what is computed from memory and stored to memory stays between them.
#if defined(__x86_64__)
  using Word = std::uint32_t;                       ///< MXCSR
  static constexpr Word kDefault = 0x1f80;          ///< every exception masked, nothing else
  static constexpr Word kControlBits = 0xffffffc0;  ///< all but the flags of what has happened

  static Word read() {
    Word word = 0;
    asm volatile("stmxcsr %0" : "=m"(word)::"memory");
    return word;
  }
  static void write(Word word) { asm volatile("ldmxcsr %0" ::"m"(word) : "memory"); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;  ///< FPCR, which holds no flags
  static constexpr Word kDefault = 0;
  static constexpr Word kControlBits = ~Word{0};

  static Word read() {
    Word word = 0;
    asm volatile("mrs %0, fpcr" : "=r"(word)::"memory");
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" ::"r"(word) : "memory"); }
#else
  using Word = std::uint32_t;  ///< what the language can name: the rounding
  static constexpr Word kDefault = FE_TONEAREST;
  static constexpr Word kControlBits = ~Word{0};

  static Word read() { return static_cast<Word>(std::fegetround()); }
  static void write(Word word) { std::fesetround(static_cast<int>(word)); }
#endif

 private:
  const Word before_;
  bool is_other_ = false;
};

}  // namespace ronde::reduce
