// Any bytes as digits and letters, for channels that take words only.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ronde::site {

std::string to_hex_text(std::string_view text);
/// SYSTEM_ERROR if it is none, or empty.
Result<std::string> from_hex_text(std::string_view hex);

}  // namespace ronde::site
