// For tests and micro benchmarks: ranks that are processes, forked from this one. They meet over a star of socket
// pairs: rank 0 gathers and sends everything to everybody.
#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"
#include "transport/shm/shm.h"

namespace ronde::transport {

inline bool send_value(int socket, std::span<const std::byte> bytes, std::span<const UniqueFd> descriptors) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * store::kMaxDescriptors)] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      const int fd = descriptors[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

inline bool receive_value(int socket, store::Value& value) {
  value.bytes.resize(4096);
  iovec piece{value.bytes.data(), value.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * store::kMaxDescriptors)] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) {
    return false;
  }
  value.bytes.resize(static_cast<std::size_t>(got));
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  for (std::size_t at = CMSG_LEN(0); header != nullptr && at < header->cmsg_len; at += sizeof(int)) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header) + at - CMSG_LEN(0), sizeof fd);
    value.descriptors.emplace_back(fd);
  }
  return true;
}

/// Made before the forks; each process then uses its rank's end. SEQPACKET keeps one value one message.
class StarStore final : public store::Store {
 public:
  explicit StarStore(int size) {
    for (int rank = 1; rank < size; ++rank) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
        hub_.emplace_back(ends[0]);
        leaf_.emplace_back(ends[1]);
      }
    }
  }
  Result<std::vector<store::Value>> exchange(const std::string&, int rank, int size, store::Value value,
                                             Nanoseconds) override {
    const Status broken = Status::error(Code::system_error, "the star broke");
    std::vector<store::Value> all(static_cast<std::size_t>(size));
    if (rank > 0) {
      const int socket = leaf_[static_cast<std::size_t>(rank - 1)].get();
      bool fine = send_value(socket, value.bytes, value.descriptors);
      for (store::Value& each : all) {
        fine = fine && receive_value(socket, each);
      }
      return fine ? Result(std::move(all)) : Result<std::vector<store::Value>>(broken);
    }
    all[0] = std::move(value);
    for (std::size_t peer = 1; peer < all.size(); ++peer) {
      if (!receive_value(hub_[peer - 1].get(), all[peer])) {
        return broken;
      }
    }
    for (const UniqueFd& socket : hub_) {
      for (const store::Value& each : all) {
        if (!send_value(socket.get(), each.bytes, each.descriptors)) {
          return broken;
        }
      }
    }
    return all;
  }

 private:
  std::vector<UniqueFd> hub_;
  std::vector<UniqueFd> leaf_;
};

/// Runs `body` in a forked process per rank, each within `limit_s` seconds; the exit statuses as of waitpid().
inline std::vector<int> run_processes(const RegionLayout& layout, const std::function<bool(HostArena&)>& body,
                                      unsigned limit_s = 60) {
  StarStore store(layout.size);
  std::vector<pid_t> children;
  for (int rank = 0; rank < layout.size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(limit_s);
      const auto met = meet_on_host(store, "host", rank, layout.size, layout, 20 * kSecond);
      ::_exit(met && body(*met.value()) ? 0 : 1);
    }
    children.push_back(child);
  }
  std::vector<int> results;
  for (const pid_t child : children) {
    int result = -1;
    results.push_back(::waitpid(child, &result, 0) == child ? result : -1);
  }
  return results;
}

}  // namespace ronde::transport
