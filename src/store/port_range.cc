#include "store/port_range.h"

#include <array>
#include <charconv>
#include <cstring>

#include "base/environment.h"
#include "base/random.h"
#include "store/tcp_address.h"

namespace ronde::store {

Result<PortRange> parse_port_range(std::string_view text) {
  PortRange range;
  const char* const end = text.data() + text.size();
  const auto [dash, error] = std::from_chars(text.data(), end, range.first);
  const bool has_dash = error == std::errc() && dash != end && *dash == '-';
  const auto [rest, last_error] = std::from_chars(has_dash ? dash + 1 : end, end, range.last);
  const bool is_good = has_dash && last_error == std::errc() && rest == end && range.first > 0;
  return is_good && range.first <= range.last
             ? Result<PortRange>(range)
             : Status::error(Code::invalid_argument,
                             "RONDE_PORT_RANGE is '" + std::string(text) + "'; expected two ports, as 29600-29699");
}

Result<UniqueFd> listen_in_range(const std::string& address) {
  const std::optional<std::string> text = environment_text("RONDE_PORT_RANGE");
  if (!text) {
    return listen_tcp({address, 0}, HostIs::numbers);
  }
  RONDE_ASSIGN_OR_RETURN(const PortRange range, parse_port_range(*text));
  std::array<std::byte, sizeof(std::uint32_t)> random{};
  RONDE_RETURN_IF_ERROR(fill_random(random));
  std::uint32_t begin = 0;
  std::memcpy(&begin, random.data(), sizeof begin);
  Status why;
  for (std::uint32_t tried = 0; tried < range.size(); ++tried) {
    const auto port = static_cast<std::uint16_t>(range.first + (begin % range.size() + tried) % range.size());
    Result<UniqueFd> listener = listen_tcp({address, port}, HostIs::numbers);
    if (listener) {
      return listener;
    }
    why = listener.status();
  }
  return why.with_context("no port of RONDE_PORT_RANGE=" + *text + " is free");
}

}  // namespace ronde::store
