#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

namespace ronde {

Status fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return Status::from_errno("getrandom", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace ronde
