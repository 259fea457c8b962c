#include "transport/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string_view>

#include "transport/tcp/long_tcp_info.h"

namespace ronde::transport {

namespace {

/// Of what is in one building, in microseconds. The way to another city and back takes longer.
constexpr std::uint32_t kNear = 1000;

bool set(int socket, std::string_view name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

/// The shortest of late, in microseconds; a large number if that is not known.
std::uint32_t round_trip(int socket) {
  LongTcpInfo info{};
  socklen_t length = sizeof info;
  const bool is_known = ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && length >= sizeof info;
  return is_known ? info.min_rtt : ~std::uint32_t{0};
}

std::string name_of(int socket) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t length = name.size();
  const bool is_known = ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0;
  return is_known ? std::string(name.data(), ::strnlen(name.data(), length)) : std::string();
}

std::string offered() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  std::string names;
  std::getline(file, names);
  return names;
}

}  // namespace

Status choose_congestion_control(int socket, const std::string& name) {
  if (name == kSystemsCongestionControl) {
    return {};
  }
  if (!name.empty() && !set(socket, name)) {
    return Status::error(Code::invalid_argument, "RONDE_TCP_CONGESTION is '" + name +
                                                     "', which this system does not let a connection have; it offers " +
                                                     offered());
  }
  if (!name.empty() || !name_of(socket).starts_with("bbr")) {
    return {};
  }
  if (round_trip(socket) < kNear && !set(socket, "cubic")) {
    set(socket, "reno");  // every Linux has it; if this one keeps it to itself BBR remains
  }
  return {};
}

}  // namespace ronde::transport
