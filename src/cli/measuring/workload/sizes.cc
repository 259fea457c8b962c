#include "cli/measuring/workload/sizes.h"

#include <charconv>
#include <utility>

namespace ronde::cli {

namespace {

constexpr std::pair<char, int> kUnits[] = {{'G', 30}, {'M', 20}, {'K', 10}};

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  int shift = 0;
  for (const auto& [letter, bits] : kUnits) {
    if (!text.empty() && (text.back() == letter || text.back() == letter + ('a' - 'A'))) {
      shift = bits;
      text.remove_suffix(1);
      break;
    }
  }
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number > (std::uint64_t{1} << (63 - shift)) - 1) {
    return std::nullopt;
  }
  return number << shift;
}

std::optional<std::vector<std::uint64_t>> parse_sizes(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::optional<std::uint64_t> size = parse_size(text.substr(0, comma));
    if (!size) {
      return std::nullopt;
    }
    sizes.push_back(*size);
    if (comma == std::string_view::npos) {
      return sizes;
    }
    text.remove_prefix(comma + 1);
  }
}

std::string size_text(std::uint64_t bytes) {
  for (const auto& [letter, bits] : kUnits) {
    if (bytes != 0 && bytes % (std::uint64_t{1} << bits) == 0) {
      return std::to_string(bytes >> bits) + letter;
    }
  }
  return std::to_string(bytes);
}

}  // namespace ronde::cli
