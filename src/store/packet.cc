#include "store/packet.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

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

}  // namespace

PacketResult send_packet(int socket, std::span<const std::byte> bytes, std::span<const UniqueFd> descriptors) {
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

PacketResult receive_packet(int socket, std::size_t limit, std::size_t max_descriptors, Packet& packet) {
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

}  // namespace ronde::store
