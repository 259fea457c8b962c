#include "site/variables.h"

#include <charconv>

#include "base/environment.h"

namespace ronde::site {

Variables own_variables() {
  return [](const char* name) { return environment_text(name); };
}

Result<std::optional<int>> number_of(const Variables& variables, const char* name, int minimum) {
  const std::optional<std::string> text = variables(name);
  if (!text) {
    return std::optional<int>();
  }
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || rest != end || value < minimum) {
    return Status::error(Code::invalid_argument, std::string(name) + " is '" + *text + "'; expected a whole number" +
                                                     " from " + std::to_string(minimum) + " on");
  }
  return std::optional<int>(value);
}

}  // namespace ronde::site
