// What Linux tells of a connection (TCP_INFO).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ronde::transport {

/// As it is since Linux 4.6, by <linux/tcp.h>; <netinet/tcp.h> has its beginning alone in glibc.
struct LongTcpInfo {
  std::array<std::byte, 104> beginning;  ///< tcp_info
  std::uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
  std::uint32_t segs_out, segs_in, notsent_bytes;
  std::uint32_t min_rtt;  ///< the shortest round trip of late, in microseconds; all ones if none was measured
  std::uint32_t data_segs_in, data_segs_out;
};

}  // namespace ronde::transport
