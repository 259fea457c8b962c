// Words that different ranks write lie on lines of their own, since processors fetch cache lines in pairs.
#pragma once

#include <cstddef>

namespace ronde::transport {

inline constexpr std::size_t kLineBytes = 128;

}  // namespace ronde::transport
