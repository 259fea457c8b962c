#include "base/environment.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace ronde {

std::optional<std::string> environment_text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return std::string(value);
}

namespace {

Status malformed(const char* name, const std::string& text, const std::string& expected) {
  return Status::error(Code::invalid_argument, std::string("the environment variable ") + name + " is '" + text +
                                                   "'; expected " + expected);
}

}  // namespace

Result<std::optional<double>> environment_number(const char* name, double minimum) {
  const std::optional<std::string> text = environment_text(name);
  if (!text) {
    return std::optional<double>();
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(value) || value < minimum) {
    std::string least = std::to_string(minimum);
    least.erase(least.find('.') + 2);
    return malformed(name, *text, "a number of at least " + least);
  }
  return std::optional<double>(value);
}

Result<std::optional<std::int64_t>> environment_integer(const char* name, std::int64_t minimum, std::int64_t maximum) {
  const std::optional<std::string> text = environment_text(name);
  if (!text) {
    return std::optional<std::int64_t>();
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < minimum || value > maximum) {
    return malformed(name, *text,
                     "a whole number from " + std::to_string(minimum) + " to " + std::to_string(maximum));
  }
  return std::optional<std::int64_t>(value);
}

}  // namespace ronde
