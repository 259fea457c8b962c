#include "transport/tcp/tcp.h"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "base/bytes.h"
#include "store/memory_store.h"
#include "transport/tcp/testing/ends_of_ranks.h"
#include "transport/tcp/testing/numbers.h"

namespace ronde::transport {
namespace {

constexpr Nanoseconds kLongEnough = 20 * kSecond;
using Met = std::vector<Result<JobLinks>>;

JobKey key_of(int number) {
  JobKey key;
  key.bytes.fill(static_cast<std::byte>(number));
  return key;
}

/// Every rank is a thread.
Met connect(store::Store& store, const std::vector<JobKey>& keys, const std::vector<std::string>& addresses,
            Nanoseconds limit = kLongEnough) {
  const int size = static_cast<int>(keys.size());
  Met met(keys.size(), Status::error(Code::internal, "did not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      met[index] =
          meet_by_tcp(store, keys[index], "job", rank, size, addresses[index], {HostTimeout(10 * kSecond)}, limit);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return met;
}

Met connect(int size) {
  store::MemoryStore store;
  const auto count = static_cast<std::size_t>(size);
  return connect(store, std::vector<JobKey>(count, key_of(1)), std::vector<std::string>(count, "127.0.0.1"));
}

class Sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Tcp, Sizes, testing::Values(1, 2, 3, 5, 8));

TEST_P(Sizes, EveryPairOfRanksIsConnected) {
  Met met = connect(GetParam());
  for (int rank = 0; rank < GetParam(); ++rank) {
    Result<JobLinks>& links = met[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(links) << links.status().message();
    for (int peer = 0; peer < GetParam(); ++peer) {
      if (peer != rank) {
        links->job.data->link(peer).send(number(rank * 10 + peer));
        links->job.agreement->link(peer).send(number(rank * 10 + peer + 1000));
      }
    }
  }
  for (int rank = 0; rank < GetParam(); ++rank) {
    JobLinks& links = *met[static_cast<std::size_t>(rank)];
    for (int peer = 0; peer < GetParam(); ++peer) {
      if (peer != rank) {
        EXPECT_EQ(wait_for_number(*links.job.agreement, peer), peer * 10 + rank + 1000);
        EXPECT_EQ(wait_for_number(*links.job.data, peer), peer * 10 + rank);
      }
    }
  }
}

TEST(Tcp, TheEndOfARankIsSeenBehindWhatItHasSent) {
  Met met = connect(2);
  ASSERT_TRUE(met[0] && met[1]);
  // Unread bytes on its side must not take back what it has sent.
  met[1]->job.data->link(0).send(std::vector<std::byte>(100000));
  std::thread other([&] {
    met[0]->job.data->link(1).send(number(5));
    met[0] = Status::error(Code::cancelled, "gone");
  });
  EXPECT_EQ(wait_for_number(*met[1]->job.data, 0), 5);
  EXPECT_EQ(wait_for_number(*met[1]->job.data, 0), -1);
  EXPECT_TRUE(met[1]->job.data->link(0).has_ended());
  EXPECT_TRUE(met[1]->job.agreement->link(0).has_ended());
  met[1] = Status::error(Code::cancelled, "gone too");
  other.join();
}

TEST(Tcp, WhatIsSentBeforeFinishArrives) {
  Met met = connect(2);
  ASSERT_TRUE(met[0] && met[1]);
  expect_all_that_was_sent_before_finish(*met[0]->job.data, *met[1]->job.data);
}

TEST(Tcp, NobodyWaitsForAPeerThatEndsToo) {
  Met met = connect(2);
  ASSERT_TRUE(met[0] && met[1]);
  expect_no_wait_for_who_ends_too(*met[0]->job.data, *met[1]->job.data);
}

TEST(Tcp, GroupsHaveLinksOfTheirOwnOverTheSameConnections) {
  Met met = connect(3);
  ASSERT_TRUE(met[0] && met[1] && met[2]);
  int arrivals = 0;
  const GroupLinks late = met[2]->groups->open(9, {2, 0}, [] {});
  late.data->link(1).send(number(29));
  met[2]->job.data->link(0).send(number(20));
  EXPECT_EQ(wait_for_number(*met[0]->job.data, 2), 20);  // before rank 0 knows of the group
  {
    const GroupLinks group = met[0]->groups->open(9, {2, 0}, [&] { ++arrivals; });
    EXPECT_EQ(arrivals, 1);
    EXPECT_EQ(wait_for_number(*group.data, 0, *met[0]->job.data), 29);
    late.agreement->link(1).send(number(30));
    late.data->link(1).send(number(31));
    EXPECT_EQ(wait_for_number(*group.agreement, 0, *met[0]->job.data), 30);
    EXPECT_EQ(wait_for_number(*group.data, 0, *met[0]->job.data), 31);
    EXPECT_EQ(arrivals, 1) << "who asks gets it without being told";
    late.data->link(1).send(number(32));
    met[2]->job.data->link(0).send(number(22));
    EXPECT_EQ(wait_for_number(*met[0]->job.data, 2), 22);
    EXPECT_EQ(arrivals, 2);
    group.data->link(0).send(number(92));
    EXPECT_EQ(wait_for_number(*late.data, 1, *met[2]->job.data), 92);
  }
  late.data->link(1).send(number(33));  // to nobody any more
  met[2]->job.data->link(0).send(number(21));
  EXPECT_EQ(wait_for_number(*met[0]->job.data, 2), 21);
  EXPECT_EQ(arrivals, 2);
}

TEST(Tcp, ARankThatCannotListenIsNamedByAll) {
  store::MemoryStore store;
  for (const Result<JobLinks>& each : connect(store, {3, key_of(1)}, {"127.0.0.1", "192.0.2.1", "127.0.0.1"})) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.status().code(), Code::system_error);
    EXPECT_EQ(each.status().failed_rank(), 1);
    EXPECT_NE(each.status().message().find("listening at 192.0.2.1"), std::string::npos) << each.status().message();
  }
}

TEST(Tcp, OtherKeysDoNotMeet) {
  store::MemoryStore store;
  for (const Result<JobLinks>& each : connect(store, {key_of(1), key_of(2)}, {"127.0.0.1", "127.0.0.1"}, 2 * kSecond)) {
    ASSERT_FALSE(each);
    EXPECT_NE(each.status().message().find("no connection with rank"), std::string::npos) << each.status().message();
  }
}

TEST(Tcp, Ipv6) {
  store::MemoryStore store;
  Met met = connect(store, {2, key_of(1)}, {"::1", "::1"});
  if (!met[0] && met[0].status().message().find("listening at ::1") != std::string::npos) {
    GTEST_SKIP() << "this machine has no IPv6: " << met[0].status().message();
  }
  ASSERT_TRUE(met[0] && met[1]) << met[0].status().message();
}

TEST(Tcp, NamesAreNoAddresses) {
  store::MemoryStore store;
  const Met met = connect(store, {1, key_of(1)}, {"localhost"});
  EXPECT_NE(met[0].status().message().find("'localhost' is no address"), std::string::npos);
}

}  // namespace
}  // namespace ronde::transport
