#include "transport/messages/channels.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "transport/tcp/stream.h"
#include "transport/tcp/testing/numbers.h"

namespace ronde::transport {
namespace {

constexpr std::uint64_t kGroups = 3;

/// Two ranks in one process, over a pair of sockets.
std::array<JobLinks, 2> two_ranks() {
  int sockets[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  const auto links = [&](int rank) {
    std::vector<std::unique_ptr<Pipe>> pipes(2);
    const auto peer = static_cast<std::size_t>(1 - rank);
    pipes[peer] = std::make_unique<Stream>(TcpConnection{UniqueFd(sockets[rank])}, 1 - rank);
    Result<NewsDescriptors> news = NewsDescriptors::make();
    return links_over(std::move(pipes), std::vector<PeerInfo>(2), HostTimeout(kNever), std::move(news.value()));
  };
  return {links(0), links(1)};
}

/// Rings whenever somebody else has read something for the group.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    ++rings_;
    changed_.notify_all();
  }
  int rings() {
    const std::lock_guard lock(mutex_);
    return rings_;
  }
  /// False: it has not rung since for half a minute.
  bool wait_for_more_than(int rings) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return rings_ != rings; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int rings_ = 0;
};

/// The i-th message of a group: now and then one that has no room in a socket.
std::vector<std::byte> message_of(int i) {
  std::vector<std::byte> message = number(i);
  message.resize(i % 64 == 63 ? 300'000 : 4 + static_cast<std::size_t>(i) % 200);
  return message;
}

/// A group's thread: sends and receives in turn, and sleeps until its bell rings while nothing has come for it.
void exchange(Link& link, Bell& bell, int count) {
  std::vector<std::byte> message;
  for (int i = 0; i < count; ++i) {
    link.send(message_of(i));
    while (true) {
      const int rings = bell.rings();
      if (link.receive(message)) {
        break;
      }
      ASSERT_TRUE(link.status() && !link.has_ended());
      ASSERT_TRUE(bell.wait_for_more_than(rings)) << "nobody has told that message " << i << " has come";
    }
    ASSERT_EQ(message, message_of(i));
  }
}

/// The job's thread: looks for all groups, sends what is kept, and has messages of its own.
void look_for_all(const JobLinks& links, int peer, int count, const std::atomic<int>& left) {
  Link& link = links.job.data->link(peer);
  std::vector<std::byte> message;
  int sent = 0;
  int received = 0;
  while (left > 0 || received < count || !link.flush()) {
    pollfd news{links.job.data->news_fd(), POLLIN, 0};
    ::poll(&news, 1, 10);
    links.job.data->look();
    while (link.receive(message)) {
      ASSERT_EQ(message, message_of(received++));
    }
    ASSERT_TRUE(link.status() && !link.has_ended());
    if (sent < count) {
      link.send(message_of(sent++));
    }
    link.flush();
  }
}

TEST(Channels, ThreadsOfGroupsAndOfTheJobHearAllThatComes) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kMessages = 300;
#else
  constexpr int kMessages = 2000;
#endif
  std::array<JobLinks, 2> ranks = two_ranks();
  std::array<std::array<Bell, kGroups>, 2> bells;
  std::vector<GroupLinks> groups;
  std::atomic<int> left = 2 * static_cast<int>(kGroups);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    for (std::uint64_t group = 0; group < kGroups; ++group) {
      Bell& bell = bells[static_cast<std::size_t>(rank)][group];
      groups.push_back(ranks[static_cast<std::size_t>(rank)].groups->open(group + 1, {0, 1}, [&] { bell.ring(); }));
      threads.emplace_back([&, rank, links = groups.back().data] {
        exchange(links->link(1 - rank), bell, kMessages);
        --left;
      });
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] { look_for_all(ranks[static_cast<std::size_t>(rank)], 1 - rank, kMessages, left); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace ronde::transport
