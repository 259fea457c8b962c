// printf's patterns into a string. std::format is not in every C++20 compiler that we support.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

namespace ronde::cli {

/// At most 511 characters; what is longer is cut.
template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  const int length = std::snprintf(text, sizeof text, pattern, values...);
  return std::string(text, length < 0 ? 0 : std::min(static_cast<std::size_t>(length), sizeof text - 1));
}

}  // namespace ronde::cli
