#include "transport/shm/shm.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "store/memory_store.h"
#include "transport/bell.h"
#include "transport/ring_link.h"

namespace ronde::transport {
namespace {

constexpr Nanoseconds kPatience = 20 * kSecond;
using Meeting = std::vector<Result<std::unique_ptr<HostArena>>>;

/// Every rank is a thread; layouts[rank] is what it brings.
Meeting meet(store::Store& store, const std::vector<RegionLayout>& layouts, const std::string& scope = "host") {
  const int size = static_cast<int>(layouts.size());
  Meeting met;
  for (int rank = 0; rank < size; ++rank) {
    met.emplace_back(Status::error(Code::internal, "did not run"));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      met[index] = meet_on_host(store, scope, rank, size, layouts[index], kPatience);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return met;
}

std::vector<RegionLayout> alike(int size) {
  return std::vector<RegionLayout>(static_cast<std::size_t>(size), RegionLayout::for_size(size));
}

void expect_same_error(const Meeting& met, Code code, const std::string& part) {
  for (const auto& each : met) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.status().code(), code) << each.status().message();
    EXPECT_EQ(each.status().message(), met[0].status().message());
    EXPECT_NE(each.status().message().find(part), std::string::npos) << each.status().message();
  }
}

int open_descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) {
    ++count;
  }
  ::closedir(folder);
  return count;
}

int ronde_mappings() {
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), std::istreambuf_iterator<char>());
  int count = 0;
  for (std::size_t at = text.find("memfd:ronde"); at != std::string::npos; at = text.find("memfd:ronde", at + 1)) {
    ++count;
  }
  return count;
}

/// Asks the kernel, so that a wrong answer is no crash: it stores a byte there, or says EFAULT.
bool writable(std::byte* address) {
  const UniqueFd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  return ::read(zero.get(), address, 1) == 1;
}

TEST(Shm, RanksSeeEachOthersMemory) {
  for (int size : {1, 2, 3, 8}) {
    store::MemoryStore store;
    const Meeting met = meet(store, alike(size));
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_TRUE(met[static_cast<std::size_t>(rank)]) << met[static_cast<std::size_t>(rank)].status().message();
      HostArena& arena = *met[static_cast<std::size_t>(rank)].value();
      EXPECT_EQ(arena.rank(), rank);
      EXPECT_EQ(arena.size(), size);
      arena.control(rank).ticks.published.value.store(static_cast<std::uint64_t>(100 + rank));
      arena.region(rank)[arena.layout().total_bytes() - 1] = static_cast<std::byte>(rank + 1);
    }
    for (const auto& each : met) {
      HostArena& arena = *each.value();
      for (int peer = 0; peer < size; ++peer) {
        EXPECT_EQ(arena.control(peer).ticks.published.value.load(), static_cast<std::uint64_t>(100 + peer));
        EXPECT_EQ(arena.region(peer)[arena.layout().total_bytes() - 1], static_cast<std::byte>(peer + 1));
        EXPECT_EQ(arena.peer(peer).pid, ::getpid());
        EXPECT_EQ(arena.peer_fd(peer) == -1, peer == arena.rank());
      }
    }
  }
}

TEST(Shm, OnlyTheControlBlockOfAPeerIsWritable) {
  store::MemoryStore store;
  const Meeting met = meet(store, alike(2));
  ASSERT_TRUE(met[0]);
  HostArena& arena = *met[0].value();
  EXPECT_TRUE(writable(arena.region(0) + arena.layout().input_offset(0)));
  EXPECT_TRUE(writable(reinterpret_cast<std::byte*>(&arena.control(1).bell)));
  EXPECT_FALSE(writable(arena.region(1) + arena.layout().ring_offset(0)));
  EXPECT_FALSE(writable(arena.region(1) + arena.layout().input_offset(0)));
  EXPECT_FALSE(writable(arena.region(1) + arena.layout().total_bytes() - 1));
}

TEST(Shm, BellsRingAcross) {
  store::MemoryStore store;
  const Meeting met = meet(store, alike(2));
  ASSERT_TRUE(met[0] && met[1]);
  HostArena& sleeper = *met[0].value();
  Sleeper(sleeper.control(0).bell).arm(kEngineSleeps);
  met[1].value()->ring(0);
  pollfd entry{sleeper.bell_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
}

TEST(Shm, RoundsLeaveNothingBehind) {
  store::MemoryStore store;
  meet(store, alike(4));
  const int descriptors = open_descriptors();
  for (int round = 0; round < 20; ++round) {
    const Meeting met = meet(store, alike(4), "round " + std::to_string(round));
    ASSERT_TRUE(met[3]) << met[3].status().message();
    EXPECT_EQ(ronde_mappings(), 4 + 2 * 12) << "one of its own and two pieces of each peer, four times";
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(ronde_mappings(), 0);
}

TEST(Shm, AnotherLayoutIsTheSameErrorForAll) {
  store::MemoryStore store;
  std::vector<RegionLayout> layouts = alike(3);
  layouts[1].slots = 8;
  expect_same_error(meet(store, layouts), Code::version_mismatch, "8 slots");
}

TEST(Shm, ALayoutThatCannotWorkIsTheSameErrorForAll) {
  store::MemoryStore store;
  std::vector<RegionLayout> layouts = alike(3);
  layouts[2].slot_bytes = 1;
  expect_same_error(meet(store, layouts), Code::system_error, "slots of 1 bytes");
}

/// Changes what rank 1 hands over in the first exchange.
class TamperingStore final : public store::Store {
 public:
  explicit TamperingStore(std::function<void(store::Value&)> tamper) : tamper_(std::move(tamper)) {}
  Result<std::vector<store::Value>> exchange(const std::string& scope, int rank, int size, store::Value value,
                                             Nanoseconds limit) override {
    if (rank == 1 && !value.descriptors.empty()) {
      tamper_(value);
    }
    return store_.exchange(scope, rank, size, std::move(value), limit);
  }

 private:
  std::function<void(store::Value&)> tamper_;
  store::MemoryStore store_;
};

TEST(Shm, MissingDescriptorsAreTheSameErrorForAll) {
  for (std::size_t left : {0u, 1u, 2u}) {
    TamperingStore store([left](store::Value& value) { value.descriptors.resize(left); });
    expect_same_error(meet(store, alike(3)), Code::system_error, std::to_string(left) + " descriptors came");
  }
}

TEST(Shm, MemoryThatCouldShrinkIsRefused) {
  const auto swap_memory = [](int seals, off_t bytes) {
    return [seals, bytes](store::Value& value) {
      value.descriptors[0].reset(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      ASSERT_EQ(::ftruncate(value.descriptors[0].get(), bytes), 0);
      ASSERT_EQ(::fcntl(value.descriptors[0].get(), F_ADD_SEALS, seals), 0);
    };
  };
  const auto bytes = static_cast<off_t>(RegionLayout::for_size(2).total_bytes());
  TamperingStore unsealed(swap_memory(0, bytes));
  expect_same_error(meet(unsealed, alike(2)), Code::system_error, "not a sealed memfd");
  TamperingStore small(swap_memory(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, bytes - 4096));
  expect_same_error(meet(small, alike(2)), Code::system_error, "not a sealed memfd");
  TamperingStore pipe([](store::Value& value) { value.descriptors[0].reset(::open("/dev/zero", O_RDWR)); });
  expect_same_error(meet(pipe, alike(2)), Code::system_error, "not a sealed memfd");
}

TEST(Shm, ABellThatCouldBlockIsRefused) {
  TamperingStore store([](store::Value& value) { value.descriptors[1].reset(::open("/dev/zero", O_RDWR)); });
  expect_same_error(meet(store, alike(2)), Code::system_error, "not a non-blocking eventfd");
}

TEST(Shm, ARankThatDoesNotComeIsNamed) {
  store::MemoryStore store;
  const auto met = meet_on_host(store, "host", 0, 2, RegionLayout::for_size(2), 10 * kMillisecond);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.status().code(), Code::timed_out);
}

TEST(Shm, AForkedChildInheritsNothingAndItsDestructorsDoNothing) {
  store::MemoryStore store;
  Meeting met = meet(store, alike(2));
  ASSERT_TRUE(met[0] && met[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool none = ronde_mappings() == 0;
    // Something else may lie in the hole by now; the destructor must leave it alone.
    std::byte* hole = met[0].value()->region(0);
    void* other = ::mmap(hole, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    met.clear();
    *static_cast<char*>(other) = 1;
    ::_exit(none ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
}

// Real processes. They meet over a star of socket pairs: rank 0 gathers and sends everything to everybody.

bool send_value(int socket, std::span<const std::byte> bytes, std::span<const UniqueFd> descriptors) {
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

bool receive_value(int socket, store::Value& value) {
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

/// Runs `body` in a process per rank; each must return true, within a minute.
void run_processes(int size, const std::function<bool(HostArena&)>& body) {
  StarStore store(size);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      const auto met = meet_on_host(store, "host", rank, size, RegionLayout::for_size(size), kPatience);
      ::_exit(met && body(*met.value()) ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int result = -1;
    ASSERT_EQ(::waitpid(child, &result, 0), child);
    EXPECT_EQ(result, 0);
  }
}

/// Sleeps in the futex until `arrived` says so; false after kPatience.
bool wait_for(HostArena& arena, const std::function<bool()>& arrived) {
  Sleeper sleeper(arena.control(arena.rank()).bell);
  for (;;) {
    sleeper.arm(kWaiterSleeps);
    if (arrived()) {
      sleeper.disarm();
      return true;
    }
    if (sleeper.sleep_in_futex(kPatience) == Wake::timeout) {
      return false;
    }
  }
}

TEST(ShmProcesses, ExchangeMessagesAndWakeEachOther) {
  for (int size : {2, 3, 5}) {
    run_processes(size, [](HostArena& arena) {
      const auto transport = make_ring_transport(arena);
      std::vector<std::byte> got;
      for (int round = 0; round < 100; ++round) {
        const std::vector<std::byte> mine(static_cast<std::size_t>(round * 300 + 1), std::byte(arena.rank() + 1));
        for (int peer = 0; peer < arena.size(); ++peer) {
          if (peer != arena.rank()) {
            transport->link(peer).send(mine);
          }
        }
        for (int peer = 0; peer < arena.size(); ++peer) {
          const auto arrived = [&] {
            for (int other = 0; other < arena.size(); ++other) {
              if (other != arena.rank()) {
                transport->link(other).flush();
              }
            }
            return transport->link(peer).receive(got);
          };
          if (peer != arena.rank() &&
              (!wait_for(arena, arrived) || got.size() != mine.size() || got.back() != std::byte(peer + 1))) {
            return false;
          }
        }
      }
      return wait_for(arena, [&] {
        bool all = true;
        for (int peer = 0; peer < arena.size(); ++peer) {
          all = (peer == arena.rank() || transport->link(peer).flush()) && all;
        }
        return all;
      });
    });
  }
}

TEST(ShmProcesses, TheDeathOfAPeerShowsOnItsDescriptor) {
  run_processes(3, [](HostArena& arena) {
    if (arena.rank() == 2) {
      return true;
    }
    pollfd entry{arena.peer_fd(2), POLLIN, 0};
    return entry.fd >= 0 && ::poll(&entry, 1, 20000) == 1 && (entry.revents & POLLIN) != 0;
  });
}

}  // namespace
}  // namespace ronde::transport
