// Files that only this user can read, and what is read from them.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::site {

/// The text of a file that belongs to this user and is closed to all others, without white space at its ends; of
/// `folder` if that is open, else `name` is a whole path. AUTH_FAILED if it is another's or open to others, or is no
/// regular file of at most 4096 bytes; SYSTEM_ERROR if it cannot be read.
Result<std::string> read_private_file(const UniqueFd& folder, const std::string& name);

}  // namespace ronde::site
