// What another program answers to a question.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"

namespace ronde::launch {

/// What it prints, on standard output and (`and_errors`) error, until it closes them or the limit has passed; then it
/// is killed. Empty if it cannot be run. Its standard input is empty.
std::string output_of(const std::vector<std::string>& words, Nanoseconds limit, bool and_errors = false);

}  // namespace ronde::launch
