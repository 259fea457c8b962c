#include "transport/tcp/silence.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "transport/tcp/long_tcp_info.h"

namespace ronde::transport {

namespace {

#ifdef TCP_RTO_MAX_MS
constexpr int kRtoMaxMs = TCP_RTO_MAX_MS;
#else
constexpr int kRtoMaxMs = 44;  // Linux 6.15 and newer; others refuse it
#endif
/// The kernel takes no less.
constexpr Nanoseconds kLeastRtoMax = kSecond;

/// See Owed::news. Segments without data are acknowledgements and probes.
std::uint64_t news_in(const LongTcpInfo& info) {
  return info.bytes_acked + info.bytes_received + (info.segs_in - info.data_segs_in);
}

}  // namespace

Owed owed_by(int socket) {
  LongTcpInfo all{};
  socklen_t length = sizeof all;
  int bytes = 0;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &all, &length) != 0 || ::ioctl(socket, SIOCOUTQ, &bytes) != 0) {
    return {};
  }
  tcp_info info{};
  std::memcpy(&info, all.beginning.data(), std::min(sizeof info, all.beginning.size()));
  Owed owed;
  if (length >= sizeof all) {
    owed.news = news_in(all);
  }
  owed.under_way = bytes > 0;
  // Data that was sent, or, where the peer's window is full, a probe that asks for room.
  owed.is_asked = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
  owed.asked_every = info.tcpi_rto * kMicrosecond;
  if (info.tcpi_unacked == 0) {  // probes: the time between these grows apart from that
    owed.asked_every <<= std::min<int>(info.tcpi_backoff, 16);
  }
  int longest_ms = 0;
  length = sizeof longest_ms;
  if (::getsockopt(socket, IPPROTO_TCP, kRtoMaxMs, &longest_ms, &length) == 0) {
    owed.asked_every = std::min(owed.asked_every, longest_ms * kMillisecond);
  }
  // With data that comes in no acknowledgement is counted if it acknowledges nothing new.
  owed.heard_before = std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv) * kMillisecond;
  return owed;
}

/// A peer's kernel that hears nothing sends what it sent last again and again, and the kernel here counts that as
/// heard: its segment is not old, since it ends where the last acknowledgement did. Of what tells that something was
/// heard without it, the probes of such a kernel count as news, but not as heard. So both must say so.
bool Silence::look(const Owed& owed, Nanoseconds now, const HostTimeout& timeout) {
  if (!owed.news || owed.news != news_) {
    news_ = owed.news;
    heard_at_ = now - owed.heard_before;
  }
  if (!owed.is_asked) {
    asked_since_ = kNever;
    return false;
  }
  asked_since_ = std::min(asked_since_, now);
  const Nanoseconds silent = now - heard_at_;
  return silent >= timeout.longest_silence() && silent >= owed.asked_every / 2 * 3 &&
         now - asked_since_ >= timeout.tick();
}

void have_kernel_watch(int socket, const HostTimeout& timeout) {
  if (!timeout.is_ever()) {
    return;
  }
  const auto set = [&](int level, int name, std::int64_t value) {
    const int number = static_cast<int>(std::min<std::int64_t>(value, 32767));
    ::setsockopt(socket, level, name, &number, sizeof number);
  };
  const std::int64_t seconds = std::max<std::int64_t>(3, timeout.limit() / kSecond);
  const std::int64_t idle = std::max<std::int64_t>(1, seconds * 3 / 10);
  const std::int64_t interval = std::max<std::int64_t>(1, seconds / 10);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, idle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, interval);
  // Several, so that some may be lost on the way.
  set(IPPROTO_TCP, TCP_KEEPCNT, std::max<std::int64_t>(1, (seconds - idle) / interval - 1));
  set(IPPROTO_TCP, kRtoMaxMs, std::max(kLeastRtoMax, timeout.limit() / 5) / kMillisecond);
}

}  // namespace ronde::transport
