#include "base/copy_bytes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ronde {

namespace {

constexpr std::size_t kPage = 4096;
/// Targets that lie less far behind their source are copied piece by piece. A whole line, for processors not measured.
constexpr std::size_t kClose = 64;
/// So short that the C library copies it by vector instructions; it begins with `rep movsb` at 2 KiB, or later.
constexpr std::size_t kPiece = 1024;

bool is_slow_at_once(const void* to, const void* from, std::size_t bytes) {
  const std::size_t behind = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % kPage;
  return bytes >= 2 * kPiece && behind > 0 && behind < kClose;
}

}  // namespace

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (!is_slow_at_once(to, from, bytes)) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t done = 0; done < bytes; done += kPiece) {
    std::memcpy(static_cast<std::byte*>(to) + done, static_cast<const std::byte*>(from) + done,
                std::min(kPiece, bytes - done));
  }
}

void move_bytes(void* to, const void* from, std::size_t bytes) {
  const auto target = reinterpret_cast<std::uintptr_t>(to);
  const auto source = reinterpret_cast<std::uintptr_t>(from);
  if (target < source + bytes && source < target + bytes) {
    std::memmove(to, from, bytes);
  } else {
    copy_bytes(to, from, bytes);
  }
}

}  // namespace ronde
