#include "launch/launcher_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace ronde::launch {

void open_standard_descriptors() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO && ::fcntl(fd, F_SETFD, 0) == 0);
  if (fd >= 0) {
    ::close(fd);
  }
}

int free_port() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (!socket.is_open() || ::bind(socket.get(), raw, size) != 0 || ::getsockname(socket.get(), raw, &size) != 0) {
    return 29500;
  }
  return ::ntohs(address.sin_port);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    environment.emplace_back(*each);
  }
  return environment;
}

}  // namespace ronde::launch
