// Whether a command can be run, before it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/ending.h"

namespace ronde::launch {

/// The value of the last `name` in "NAME=value" strings; empty if there is none.
std::string variable_of(const std::vector<std::string>& environment, std::string_view name);

/// Nothing if `program` is, or the PATH of the environment leads to, a file that this user may execute; else why not.
std::optional<StartFailure> check_program(const std::string& program, const std::vector<std::string>& environment);

}  // namespace ronde::launch
