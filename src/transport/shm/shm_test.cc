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
#include "transport/arena/ring_link.h"
#include "transport/bell.h"
#include "transport/loopback/loopback.h"
#include "transport/shm/testing/processes.h"

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
  // All ranks of these tests are in this process, and ThreadSanitizer has little address space.
  RegionLayout layout = RegionLayout::for_size(size);
  layout.heap_bytes = kLoopbackHeapBytes;
  return std::vector<RegionLayout>(static_cast<std::size_t>(size), layout);
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
        EXPECT_EQ(arena.process(peer).info.pid, ::getpid());
        EXPECT_EQ(arena.process(peer).end_fd == -1, peer == arena.rank());
      }
    }
  }
}

TEST(Shm, OnlyTheControlBlockAndTheHeapOfAPeerAreWritable) {
  store::MemoryStore store;
  const Meeting met = meet(store, alike(2));
  ASSERT_TRUE(met[0]);
  HostArena& arena = *met[0].value();
  EXPECT_TRUE(writable(arena.region(0) + arena.layout().input_offset(0)));
  EXPECT_TRUE(writable(reinterpret_cast<std::byte*>(&arena.control(1).bell)));
  EXPECT_FALSE(writable(arena.region(1) + arena.layout().ring_offset(0)));
  EXPECT_FALSE(writable(arena.region(1) + arena.layout().input_offset(0)));
  EXPECT_FALSE(writable(arena.region(1) + arena.layout().eager_bytes() - 1));
  EXPECT_FALSE(writable(arena.region(1) + arena.layout().heap_offset() - 1));
  EXPECT_TRUE(writable(arena.heap(1)));
}

TEST(Shm, BellsRingAcross) {
  store::MemoryStore store;
  const Meeting met = meet(store, alike(2));
  ASSERT_TRUE(met[0] && met[1]);
  HostArena& sleeper = *met[0].value();
  Sleeper(sleeper.control(0).bell).arm(kEngineSleeps);
  met[1].value()->bells().ring(0);
  pollfd entry{sleeper.bells().own_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
}

TEST(Shm, RoundsLeaveNothingBehind) {
  store::MemoryStore store;
  meet(store, alike(4));
  const int descriptors = open_descriptors();
  for (int round = 0; round < 20; ++round) {
    const Meeting met = meet(store, alike(4), "round " + std::to_string(round));
    ASSERT_TRUE(met[3]) << met[3].status().message();
    EXPECT_EQ(ronde_mappings(), 4 * 2 + 12 * 3) << "two pieces of its own and three of each peer, four times";
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

void expect_processes(int size, const std::function<bool(HostArena&)>& body) {
  for (const int result : run_processes(RegionLayout::for_size(size), body)) {
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
    if (sleeper.sleep(kPatience) == Wake::timeout) {
      return false;
    }
  }
}

TEST(ShmProcesses, ExchangeMessagesAndWakeEachOther) {
  for (int size : {2, 3, 5}) {
    expect_processes(size, [](HostArena& arena) {
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
  expect_processes(3, [](HostArena& arena) {
    if (arena.rank() == 2) {
      return true;
    }
    pollfd entry{arena.process(2).end_fd, POLLIN, 0};
    return entry.fd >= 0 && ::poll(&entry, 1, 20000) == 1 && (entry.revents & POLLIN) != 0;
  });
}

}  // namespace
}  // namespace ronde::transport
