#include "store/unix_address.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace ronde::store {

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Status::error(Code::invalid_argument,
                         "the path of a Unix socket has 1 to " + std::to_string(sizeof address.sun_path - 1) +
                             " bytes; this one has " + std::to_string(path.size()) + ": '" + path + "'");
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string abstract_name(const std::string& path) { return std::string(1, '\0') + path; }

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace ronde::store
