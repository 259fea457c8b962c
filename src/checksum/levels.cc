#include <vector>

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
  static const std::vector<const Xxh3*> kRunnable = [] {
    std::vector<const Xxh3*> found = {&baseline::kXxh3};
#if defined(__x86_64__)
    // Asks the processor, and the operating system whether it saves the registers.
    if (__builtin_cpu_supports("avx2")) {
      found.push_back(&avx2::kXxh3);
    }
#endif
    return found;
  }();
  return kRunnable;
}

}  // namespace ronde
