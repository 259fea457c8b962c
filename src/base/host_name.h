// What this host calls itself.
#pragma once

#include <string>

namespace ronde {

/// As gethostname() says; "this host" if it says nothing. For messages and names of files only: it proves nothing.
std::string host_name();

}  // namespace ronde
