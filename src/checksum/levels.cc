#include "checksum/xxh3.h"

namespace ronde {

namespace baseline {
extern const Xxh3 kXxh3;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Xxh3 kXxh3;
}
#endif

std::span<const Xxh3* const> runnable_xxh3() {
  // No container: the engine's thread asks while the process ends, when what has a destructor is gone.
#if defined(__x86_64__)
  static constexpr const Xxh3* kAll[] = {&baseline::kXxh3, &avx2::kXxh3};
  // Asks the processor, and the operating system whether it saves the registers.
  return std::span(kAll).first(__builtin_cpu_supports("avx2") ? 2 : 1);
#else
  static constexpr const Xxh3* kAll[] = {&baseline::kXxh3};
  return kAll;
#endif
}

}  // namespace ronde
