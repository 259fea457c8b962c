#include "transport/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "transport/tcp/long_tcp_info.h"

namespace ronde::transport {

namespace {

/// Of what is in one building, in microseconds. The way to another city and back takes longer.
constexpr std::uint32_t kNear = 1000;
/// More than one packet of so many, and of no fewer, is not lost because the way is full.
constexpr std::uint64_t kLostOf = 200;
constexpr std::uint64_t kFewestLost = 5;

bool set(int socket, std::string_view name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

std::optional<LongTcpInfo> info_of(int socket) {
  LongTcpInfo info{};
  socklen_t length = sizeof info;
  const bool is_known = ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && length >= sizeof info;
  return is_known ? std::optional(info) : std::nullopt;
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

Status CongestionControl::choose(int socket, const std::string& name) {
  if (name == kSystems) {
    return {};
  }
  if (!name.empty() && !set(socket, name)) {
    return Status::error(Code::invalid_argument, "RONDE_TCP_CONGESTION is '" + name +
                                                     "', which this system does not let a connection have; it offers " +
                                                     offered());
  }
  const std::string systems = name_of(socket);
  if (!name.empty() || !systems.starts_with("bbr")) {
    return {};
  }
  const std::optional<LongTcpInfo> info = info_of(socket);
  // Every Linux has Reno; if this one keeps both to itself BBR remains.
  if (info && info->min_rtt < kNear && (set(socket, "cubic") || set(socket, "reno"))) {
    replaced_ = systems;
  }
  return {};
}

void CongestionControl::look(int socket) {
  const std::optional<LongTcpInfo> info = replaced_.empty() ? std::nullopt : info_of(socket);
  if (!info) {
    return;
  }
  tcp_info beginning{};
  std::memcpy(&beginning, info->beginning.data(), std::min(sizeof beginning, info->beginning.size()));
  const std::uint64_t repeated = beginning.tcpi_total_retrans;
  if (repeated >= kFewestLost && repeated * kLostOf > info->data_segs_out) {
    set(socket, replaced_);
    replaced_.clear();
  }
}

}  // namespace ronde::transport
