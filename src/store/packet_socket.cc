#include "store/packet_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "store/store.h"

namespace ronde::store {

namespace {

/// The kernel passes at most 253 descriptors with a packet. Room for all of them, so that a sender of too many cannot
/// make any of them get lost between the kernel and us: we see them and close them.
constexpr std::size_t kKernelDescriptors = 253;

void take_descriptors(msghdr& message, std::vector<UniqueFd>& descriptors) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
}

PacketResult send_with_descriptors(int socket, std::span<const std::byte> bytes,
                                   std::span<const UniqueFd> descriptors) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      const int fd = descriptors[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  while (true) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
      return PacketResult::done;
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno == ETOOMANYREFS) {
      return PacketResult::crowded;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK ? PacketResult::again : PacketResult::closed;
  }
}

PacketResult receive_with_descriptors(int socket, std::size_t limit, std::size_t max_descriptors, Packet& packet) {
  packet.descriptors.clear();
  packet.bytes.resize(limit);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(kKernelDescriptors * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t got = -1;
  do {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    packet.bytes.clear();
    return errno == EAGAIN || errno == EWOULDBLOCK ? PacketResult::again : PacketResult::closed;
  }
  take_descriptors(message, packet.descriptors);
  packet.bytes.resize(static_cast<std::size_t>(got));
  if (got == 0) {
    packet.descriptors.clear();
    return PacketResult::closed;
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || packet.descriptors.size() > max_descriptors) {
    packet.descriptors.clear();
    return PacketResult::bad;
  }
  return PacketResult::done;
}

}  // namespace

PacketSocket::PacketSocket(UniqueFd socket) : socket_(std::move(socket)) {
  int type = SOCK_SEQPACKET;
  socklen_t bytes = sizeof type;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_TYPE, &type, &bytes);
  is_stream_ = type == SOCK_STREAM;
  if (is_stream_) {
    kept_from_children_ = std::make_unique<KeptFromForkedChildren>(socket_.get());
  }
}

void PacketSocket::seal(const JobKey& sending, const JobKey& receiving) {
  if (is_stream_) {
    framing_.seal(sending, receiving);
  }
}

PacketResult PacketSocket::send(std::span<const std::byte> bytes, std::span<const UniqueFd> descriptors) {
  if (!is_stream_) {
    return send_with_descriptors(socket_.get(), bytes, descriptors);
  }
  if (const PacketResult before = flush(); before != PacketResult::done) {
    return before;
  }
  framing_.put(bytes);
  const PacketResult sent = flush();
  return sent == PacketResult::again ? PacketResult::done : sent;
}

PacketResult PacketSocket::flush() {
  while (!framing_.unsent().empty()) {
    const std::span<const std::byte> rest = framing_.unsent();
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR) {
      return errno == EAGAIN || errno == EWOULDBLOCK ? PacketResult::again : PacketResult::closed;
    }
    if (sent > 0) {
      framing_.note_sent(static_cast<std::size_t>(sent));
    }
  }
  return PacketResult::done;
}

PacketResult PacketSocket::receive(std::size_t limit, std::size_t max_descriptors, Packet& packet) {
  return is_stream_ ? receive_stream(limit, packet)
                    : receive_with_descriptors(socket_.get(), limit, max_descriptors, packet);
}

PacketResult PacketSocket::receive_stream(std::size_t limit, Packet& packet) {
  std::optional<std::size_t> missing;
  while ((missing = framing_.missing(limit)) && *missing > 0) {
    std::array<std::byte, 4096> piece;
    const ssize_t got = ::recv(socket_.get(), piece.data(), std::min(piece.size(), *missing), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) {
      return PacketResult::closed;
    }
    if (got < 0 && errno != EINTR) {
      return PacketResult::again;
    }
    if (got > 0) {
      framing_.add(std::span(piece).first(static_cast<std::size_t>(got)));
    }
  }
  if (!missing) {
    return PacketResult::bad;
  }
  packet.descriptors.clear();
  return framing_.take(packet.bytes) ? PacketResult::done : PacketResult::bad;
}

}  // namespace ronde::store
