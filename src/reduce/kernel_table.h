// What one processor level offers: a kernel per type and operation. Internal to src/reduce.
//
// kernels.cc is compiled once per level, each time in a namespace of its own (level_scalar, level_v3, ...), and leaves
// nothing in its object file but its table() and local symbols. A weak symbol there, say an inline function of the
// standard library, could be chosen by the linker for the whole program although it was compiled for a processor that
// the program does not run on; the test reduce.no_weak_symbols looks for them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ronde::reduce {

/// One call of reduce(), unpacked.
struct Job {
  const void* const* inputs = nullptr;
  std::size_t ranks = 0;
  std::size_t count = 0;
  void* output = nullptr;
  void* second_output = nullptr;  ///< may be null
  double prescale = 1.0;
  double first_prescale = 1.0;  ///< of inputs[0], in place of prescale
  double postscale = 1.0;
  std::size_t divisor = 0;  ///< of a floating average; 0: the ranks

  bool is_scaled() const { return prescale != 1.0 || postscale != 1.0; }
};

using Kernel = void (*)(const Job& job);

inline constexpr int kDTypeNumbers = 17;    ///< DType runs from 0 to 16
inline constexpr int kReduceOpNumbers = 9;  ///< ReduceOp runs from 0 to 8

struct KernelTable {
  /// By the numbers of DType and ReduceOp; null where the level has none. Integer kernels neither scale nor average
  /// (integer_scaled.h does); floating kernels do both.
  Kernel kernels[kDTypeNumbers][kReduceOpNumbers] = {};

  /// The level's conversions, as its kernels use them, over arrays of any length (widen.h).
  void (*widen_float16)(const std::uint16_t* from, float* to, std::size_t count) = nullptr;
  void (*narrow_float16)(const float* from, std::uint16_t* to, std::size_t count) = nullptr;
  void (*widen_bfloat16)(const std::uint16_t* from, float* to, std::size_t count) = nullptr;
  void (*narrow_bfloat16)(const float* from, std::uint16_t* to, std::size_t count) = nullptr;
};

namespace level_scalar {
const KernelTable& table();
}
namespace level_v2 {
const KernelTable& table();
}
namespace level_v3 {
const KernelTable& table();
}
namespace level_v4 {
const KernelTable& table();
}
namespace level_aarch64 {
const KernelTable& table();
}

}  // namespace ronde::reduce
