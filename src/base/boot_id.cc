#include "base/boot_id.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace ronde {

std::string boot_id() {
  const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::string text(128, '\0');
  const ssize_t got = file.is_open() ? ::read(file.get(), text.data(), text.size()) : 0;
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text.substr(0, text.find('\n'));
}

}  // namespace ronde
