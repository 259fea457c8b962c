#include "collectives/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/copy_bytes.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ronde::collectives {

#if defined(__x86_64__)

void stream_copy(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t before = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(target) % kLine) % kLine);
  std::memcpy(target, source, before);
  target += before;
  source += before;
  bytes -= before;
  // Whole lines, so that each leaves the write-combining buffer in one go.
  for (; bytes >= kLine; bytes -= kLine, target += kLine, source += kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(source);
    const __m128i a = _mm_loadu_si128(in);
    const __m128i b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2);
    const __m128i d = _mm_loadu_si128(in + 3);
    auto* out = reinterpret_cast<__m128i*>(target);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  std::memcpy(target, source, bytes);
}

void streams_done() { _mm_sfence(); }

#else

void stream_copy(void* to, const void* from, std::size_t bytes) { copy_bytes(to, from, bytes); }

void streams_done() {}

#endif

}  // namespace ronde::collectives
