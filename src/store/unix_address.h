// The address of a Unix socket: a path, or an abstract name, which begins with a zero byte.
#pragma once

#include <sys/un.h>

#include <string>

#include "base/status.h"

namespace ronde::store {

/// INVALID_ARGUMENT if the path is empty or longer than the kernel's 107 bytes.
Result<sockaddr_un> unix_address(const std::string& path);

/// The abstract name that goes with a socket at `path`: whoever is in the same network namespace reaches it, also from
/// a container that does not see the folder.
std::string abstract_name(const std::string& path);
inline bool is_abstract(const std::string& path) { return path.starts_with('\0'); }

/// Whether the process at the other end of a connected socket ran as this process's effective user when it called
/// connect (a server asks) or listen (a client asks).
bool is_same_user(int socket);

}  // namespace ronde::store
