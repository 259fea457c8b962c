#include "observe/json_text.h"

#include <cstdint>
#include <cstdio>

namespace ronde::observe {

namespace {

/// Bytes of the character that begins here, 0 if none does.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::size_t size = byte(0) < 0x80                      ? 1
                           : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                           : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                           : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                               : 0;
  if (size == 0 || size > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  const bool is_overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool is_surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
  const bool is_too_large = byte(0) == 0xf4 && byte(1) >= 0x90;
  return is_overlong || is_surrogate || is_too_large ? 0 : size;
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    const char first = text.front();
    if (size == 0) {
      json += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      json += '\\';
      json += first;
    } else if (size == 1 && static_cast<std::uint8_t>(first) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(first));
      json += escaped;
    } else {
      json += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return json + '"';
}

}  // namespace ronde::observe
