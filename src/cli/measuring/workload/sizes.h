// Numbers of bytes as people write them: K, M and G are 2^10, 2^20 and 2^30.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ronde::cli {

/// "8", "64K", "1M", "2G", also in lower case; nothing if it is none of these or does not fit 63 bits.
std::optional<std::uint64_t> parse_size(std::string_view text);
/// A list with commas, at least one.
std::optional<std::vector<std::uint64_t>> parse_sizes(std::string_view text);
/// The inverse, with the largest unit that divides it: "64K" for 65536, "1000" for 1000.
std::string size_text(std::uint64_t bytes);

}  // namespace ronde::cli
