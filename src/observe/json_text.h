// A string as JSON writes it.
#pragma once

#include <string>
#include <string_view>

namespace ronde::observe {

/// With its quotation marks. Whatever the bytes are the result is JSON in UTF-8: what is not UTF-8 becomes U+FFFD.
std::string json_text(std::string_view text);

}  // namespace ronde::observe
