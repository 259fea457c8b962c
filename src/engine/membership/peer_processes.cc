#include "engine/membership/peer_processes.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace ronde::engine {

Result<PeerProcesses> PeerProcesses::watch(std::vector<int> descriptors) {
  UniqueFd set(::epoll_create1(EPOLL_CLOEXEC));
  if (!set.is_open()) {
    return Status::from_errno("epoll_create1", errno);
  }
  for (std::size_t peer = 0; peer < descriptors.size(); ++peer) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(peer);
    if (descriptors[peer] >= 0 && ::epoll_ctl(set.get(), EPOLL_CTL_ADD, descriptors[peer], &event) != 0) {
      return Status::from_errno("epoll_ctl of a peer's process", errno);
    }
  }
  return PeerProcesses(std::move(set), std::move(descriptors));
}

std::vector<int> PeerProcesses::ended() {
  epoll_event events[16];
  const int count = ::epoll_wait(set_.get(), events, 16, 0);
  std::vector<int> peers;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t peer = events[i].data.u32;
    ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, descriptors_[peer], nullptr);
    peers.push_back(static_cast<int>(peer));
  }
  return peers;
}

}  // namespace ronde::engine
