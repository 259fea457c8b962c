#include "site/hex.h"

namespace ronde::site {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string to_hex_text(std::string_view text) {
  std::string hex;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Result<std::string> from_hex_text(std::string_view hex) {
  std::string text;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const std::size_t high = kDigits.find(hex[i]);
    const std::size_t low = kDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      text.clear();
      break;
    }
    text += static_cast<char>(high * 16 + low);
  }
  if (text.empty() || hex.size() % 2 != 0) {
    return Status::error(Code::system_error, "what rank 0 has told of itself cannot be read");
  }
  return text;
}

}  // namespace ronde::site
