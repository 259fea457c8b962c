#include "transport/hosts/hosts.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "base/bytes.h"
#include "base/log.h"
#include "store/memory_store.h"

namespace ronde::transport {
namespace {

constexpr Nanoseconds kHostsLimit = 20 * kSecond;

JobKey hosts_key() {
  JobKey key;
  key.bytes.fill(std::byte{7});
  return key;
}

/// Every rank is a thread, which makes what `prepare` does first.
std::vector<Result<Hosts>> find_all(const std::vector<HostClaim>& claims,
                                    const std::function<void(int)>& prepare = {}) {
  store::MemoryStore store;
  const int size = static_cast<int>(claims.size());
  std::vector<Result<Hosts>> found(claims.size(), Status::error(Code::internal, "did not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      if (prepare) {
        prepare(rank);
      }
      found[index] = find_hosts(store, hosts_key(), "job", rank, size, claims[index], kHostsLimit);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return found;
}

/// Of which all ranks have the same, this.
void expect_first_of(std::vector<Result<Hosts>>& found, const std::vector<int>& first_of) {
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    ASSERT_TRUE(found[rank]) << found[rank].status().message();
    EXPECT_EQ(found[rank]->first_of, first_of) << "rank " << rank;
    const std::vector<int> members = found[rank]->members(static_cast<int>(rank));
    if (members.size() == 1) {
      EXPECT_EQ(found[rank]->arena, nullptr);
      continue;
    }
    ASSERT_NE(found[rank]->arena, nullptr);
    EXPECT_EQ(found[rank]->arena->size(), static_cast<int>(members.size()));
    EXPECT_EQ(members[static_cast<std::size_t>(found[rank]->arena->rank())], static_cast<int>(rank));
  }
}

/// The log's lines while it lives.
class HostsLog {
 public:
  HostsLog() {
    set_log_level(LogLevel::info);
    set_log_sink([this](LogLevel level, int rank, const std::string& message) {
      std::lock_guard lock(mutex_);
      lines_.push_back(std::string(log_level_name(level)) + " of rank " + std::to_string(rank) + ": " + message);
    });
  }
  ~HostsLog() {
    set_log_sink({});
    set_log_level(LogLevel::warning);
  }
  std::vector<std::string> get() {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST(Hosts, RanksThatCanShareMemoryAreOfOneHost) {
#if defined(__SANITIZE_THREAD__)
  constexpr int kRanks = 2;  // each maps the room of all: in one process that of four is more than ThreadSanitizer has
#else
  constexpr int kRanks = 4;
#endif
  auto found = find_all(std::vector<HostClaim>(kRanks, HostClaim{"", kRanks}));
  expect_first_of(found, std::vector<int>(kRanks, 0));
  EXPECT_EQ(found[0]->count(), 1);
}

TEST(Hosts, OtherIdsKeepThemApart) {
  HostsLog lines;
  auto found = find_all({{"a", 2}, {"b", 2}, {"a", 2}, {"b", 2}, {"c", 1}});
  expect_first_of(found, {0, 1, 0, 1, 4});
  EXPECT_EQ(found[0]->count(), 3);
  EXPECT_EQ(found[0]->members(3), (std::vector<int>{1, 3}));
  EXPECT_TRUE(lines.get().empty()) << lines.get().front();
}

TEST(Hosts, ANetworkNamespaceOfItsOwnIsAHostOfItsOwnAndTheLogSaysSo) {
  for (const int local_size : {1, 3}) {
    HostsLog lines;
    int failure = 0;
    auto found = find_all({3, HostClaim{"", local_size}}, [&](int rank) {
      if (rank == 1 && ::unshare(CLONE_NEWNET) != 0) {
        failure = errno;
      }
    });
    if (failure != 0) {
      GTEST_SKIP() << "no network namespace can be made here: " << std::strerror(failure);
    }
    expect_first_of(found, {0, 1, 0});
    ASSERT_EQ(lines.get().size(), 1u) << "one line, whatever the ranks";
    EXPECT_EQ(lines.get()[0].find(local_size == 1 ? "info of rank 0: the ranks 1 run on this rank's machine"
                                                  : "warning of rank 0: the ranks 1 run on this rank's machine"),
              0u)
        << lines.get()[0];
  }
}

/// Sends numbers between all, of a job and of a group of it, whatever links there are.
/// A process that can make no file of a megabyte, and so no memory to share.
TEST(Hosts, WithoutMemoryToShareTheyGoApartAndTheLogNamesTheRankOfTheJob) {
  std::vector<std::string> said;
  {
    const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit little{1000, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
    HostsLog lines;
    auto found = find_all({{"a", 1}, {"b", 2}, {"b", 2}});
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, ignored);
    expect_first_of(found, {0, 1, 2});
    said = lines.get();
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].find("warning of rank 1: the ranks 2 run on this rank's machine"), 0u) << said[0];
  EXPECT_NE(said[0].find("can share no memory with it: rank 1 on host "), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("bytes: File too large"), std::string::npos) << said[0];
}

TEST(Hosts, LinksLeadToAllRanks) {
  const std::vector<HostClaim> claims = {{"a", 3}, {"b", 2}, {"a", 3}, {"c", 1}, {"b", 2}, {"a", 3}};
  const int size = static_cast<int>(claims.size());
  store::MemoryStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto found =
          find_hosts(store, hosts_key(), "job", rank, size, claims[static_cast<std::size_t>(rank)], kHostsLimit);
      ASSERT_TRUE(found) << found.status().message();
      auto made = connect_hosts(store, hosts_key(), "tcp", rank, size, "127.0.0.1", found.value(),
                                TcpOptions{HostTimeout(kNever)}, kHostsLimit);
      ASSERT_TRUE(made) << made.status().message();
      ASSERT_EQ(made->own->size(), 1);
      GroupLinks group;
      if (rank % 2 == 1) {
        group = made->links.groups->open(9, {1, 3, 5}, [] {});
      }
      Transport& job = *made->links.job.data;
      const auto message = [](int from, int to, std::size_t bytes) {
        std::vector<std::byte> made_of(bytes, static_cast<std::byte>(from * 16 + to));
        return made_of;
      };
      const std::size_t sizes[] = {0, 1, 100000};
      for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) {
          continue;
        }
        for (const std::size_t bytes : sizes) {
          job.link(peer).send(message(rank, peer, bytes));
          if (rank % 2 == 1 && peer % 2 == 1) {
            group.data->link(peer / 2).send(message(rank, peer, bytes + 1));
          }
        }
      }
      const RealClock clock;
      const Nanoseconds deadline = clock.now() + kHostsLimit;
      const auto flush = [&] {
        bool all = true;
        for (int peer = 0; peer < size; ++peer) {
          all = (peer == rank || job.link(peer).flush()) && all;
        }
        job.look();
        std::this_thread::yield();
        return all;
      };
      const auto receive = [&](Link& link, std::vector<std::byte>& got) {
        while (!link.receive(got) && clock.now() < deadline) {
          flush();
        }
      };
      std::vector<std::byte> got;
      for (int peer = 0; peer < size; ++peer) {
        for (const std::size_t bytes : sizes) {
          if (peer != rank) {
            receive(job.link(peer), got);
            EXPECT_TRUE(got == message(peer, rank, bytes)) << peer << " to " << rank << ", " << bytes;
          }
          if (peer != rank && rank % 2 == 1 && peer % 2 == 1) {
            receive(group.data->link(peer / 2), got);
            EXPECT_TRUE(got == message(peer, rank, bytes + 1)) << peer << " to " << rank << ", " << bytes;
          }
        }
      }
      while (!flush() && clock.now() < deadline) {
      }
      EXPECT_TRUE(store.exchange("end", rank, size, {}, kHostsLimit)) << "nobody goes before the others have read";
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace ronde::transport
