#include "base/job_key.h"

#include "base/random.h"

namespace ronde {

namespace {

/// The value of a hexadecimal digit, -1 for any other character.
int digit_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}

}  // namespace

Result<JobKey> make_job_key() {
  JobKey key;
  RONDE_RETURN_IF_ERROR(fill_random(key.bytes));
  return key;
}

Result<JobKey> parse_job_key(std::string_view hex) {
  if (hex.size() != 2 * kJobKeyBytes) {
    return Status::error(Code::invalid_argument, "a job key is 64 hexadecimal digits; this one has " +
                                                     std::to_string(hex.size()) + " characters");
  }
  JobKey key;
  for (std::size_t i = 0; i < kJobKeyBytes; ++i) {
    const int high = digit_value(hex[2 * i]);
    const int low = digit_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return Status::error(Code::invalid_argument,
                           "a job key is 64 hexadecimal digits; this one has another character at position " +
                               std::to_string(high < 0 ? 2 * i : 2 * i + 1));
    }
    key.bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return key;
}

std::string to_hex(const JobKey& key) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : key.bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

}  // namespace ronde
