// The version of the library, the same as that of the project in CMakeLists.txt.
#pragma once

#include <string_view>

namespace ronde {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace ronde
