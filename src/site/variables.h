// The environment variables by which launchers tell a process who it is.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"

namespace ronde::site {

/// Gives a variable's text; nothing if it is not set, or empty. The process's own environment, or a recorded one.
using Variables = std::function<std::optional<std::string>(const char* name)>;

/// This process's.
Variables own_variables();

/// A whole number from `minimum` on; nothing if it is not set. INVALID_ARGUMENT that names the variable.
Result<std::optional<int>> number_of(const Variables& variables, const char* name, int minimum);

}  // namespace ronde::site
