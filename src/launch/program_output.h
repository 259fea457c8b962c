// What another program answers to a question.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace ronde::launch {

/// What it prints, on standard output and (`and_errors`) error, until it closes them or the limit has passed; then it
/// is killed. Empty if it cannot be run. Its standard input is empty.
std::string output_of(const std::vector<std::string>& words, Nanoseconds limit, bool and_errors = false);

/// What a child of this process writes to the descriptor that `work` is given, until it ends or the limit has passed,
/// when it is killed; empty where no child can be made. `work` is done in the child alone. Requires: one thread.
std::string output_of_child(const std::function<void(int output)>& work, Nanoseconds limit);

}  // namespace ronde::launch
