// The smallest multiple of a unit that holds a size.
#pragma once

#include <cstddef>

namespace ronde {

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace ronde
