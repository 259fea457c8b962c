// Numbers for the places in the program that requests come from: a number is what a caller can pass on each call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ronde {

/// Any thread. The number of this text, from 1; 0 once there are too many. Only the end of a long text is kept.
std::int32_t number_of_call_site(std::string_view text);

/// Any thread; never waits. What has this number; null if nothing has. Lives as long as the process.
const std::string* call_site_of(std::int32_t number);

}  // namespace ronde
