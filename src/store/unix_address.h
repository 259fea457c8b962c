// The address of a Unix socket in the file system.
#pragma once

#include <sys/un.h>

#include <string>

#include "base/status.h"

namespace ronde::store {

/// INVALID_ARGUMENT if the path is empty or longer than the kernel's 107 bytes.
Result<sockaddr_un> unix_address(const std::string& path);

/// Whether the process at the other end of a connected socket ran as this process's effective user when it called
/// connect (a server asks) or listen (a client asks).
bool is_same_user(int socket);

}  // namespace ronde::store
