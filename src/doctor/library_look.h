// A look at a library that a job would open: in a process of its own, since some do things as they are opened, print,
// or end their process.
#pragma once

#include <functional>
#include <string>

namespace ronde::doctor {

/// What `look` says, in another process, whose standard output and error go nowhere. Empty if that ended without a
/// word, or not within twenty seconds.
std::string look_apart(const std::function<std::string()>& look);

}  // namespace ronde::doctor
