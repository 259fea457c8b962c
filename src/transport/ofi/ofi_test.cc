#include "transport/ofi/ofi.h"

#include <gtest/gtest.h>

#include <thread>

#include "store/memory_store.h"
#include "transport/ofi/testing/providers_here.h"
#include "transport/tcp/testing/ends_of_ranks.h"
#include "transport/tcp/testing/numbers.h"

namespace ronde::transport {
namespace {

constexpr Nanoseconds kOfiLimit = 20 * kSecond;
using MetByOfi = std::vector<Result<JobLinks>>;

/// Every rank is a thread, with options of its own.
MetByOfi meet_by_ofi(const std::vector<OfiOptions>& options) {
  store::MemoryStore store;
  JobKey key;
  key.bytes.fill(std::byte{1});
  const int size = static_cast<int>(options.size());
  MetByOfi met(options.size(), Status::error(Code::internal, "did not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      const TcpOptions tcp{HostTimeout(10 * kSecond)};
      auto made = connect_by_ofi(store, key, "job", rank, size, "127.0.0.1", options[index], tcp, kOfiLimit);
      met[index] = made ? Result<JobLinks>(links_over(std::move(made->pipes), std::move(made->who), tcp.timeout,
                                                      std::move(made->news), nullptr, std::move(made->shared)))
                        : made.status();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return met;
}

class MeetByOfi : public testing::TestWithParam<OfiOptions> {
 protected:
  void SetUp() override {
    if (const std::string why = missing_here(GetParam()); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ofi, MeetByOfi, testing::ValuesIn(tested_fabrics()),
                         [](const auto& each) { return name_of(each.param); });

TEST_P(MeetByOfi, EveryPairOfRanksIsConnected) {
  for (const int size : {1, 4}) {
    MetByOfi met = meet_by_ofi(std::vector<OfiOptions>(static_cast<std::size_t>(size), GetParam()));
    for (int rank = 0; rank < size; ++rank) {
      Result<JobLinks>& links = met[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(links) << links.status().message();
      for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) {
          links->job.data->link(peer).send(number(rank * 10 + peer));
        }
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) {
          EXPECT_EQ(wait_for_number(*met[static_cast<std::size_t>(rank)]->job.data, peer), peer * 10 + rank);
        }
      }
    }
  }
}

TEST_P(MeetByOfi, TheEndOfARankIsSeenBehindWhatItHasSent) {
  MetByOfi met = meet_by_ofi({2, GetParam()});
  ASSERT_TRUE(met[0] && met[1]) << met[0].status().message();
  met[1]->job.data->link(0).send(std::vector<std::byte>(100000));  // which nobody reads
  std::thread other([&] {
    met[0]->job.data->link(1).send(number(5));
    met[0] = Status::error(Code::cancelled, "gone");
  });
  EXPECT_EQ(wait_for_number(*met[1]->job.data, 0), 5);
  EXPECT_EQ(wait_for_number(*met[1]->job.data, 0), -1);
  EXPECT_TRUE(met[1]->job.data->link(0).has_ended());
  EXPECT_EQ(met[1]->job.data->link(0).end_cause(), "");
  other.join();
}

TEST_P(MeetByOfi, WhatIsSentBeforeFinishArrives) {
  MetByOfi met = meet_by_ofi({2, GetParam()});
  ASSERT_TRUE(met[0] && met[1]);
  expect_all_that_was_sent_before_finish(*met[0]->job.data, *met[1]->job.data);
}

TEST_P(MeetByOfi, NobodyWaitsForAPeerThatEndsToo) {
  MetByOfi met = meet_by_ofi({2, GetParam()});
  ASSERT_TRUE(met[0] && met[1]);
  expect_no_wait_for_who_ends_too(*met[0]->job.data, *met[1]->job.data);
}

TEST_P(MeetByOfi, ARankWithoutThatProviderIsNamedByAll) {
  for (const Result<JobLinks>& each : meet_by_ofi({GetParam(), {"none", true}, GetParam()})) {
    ASSERT_FALSE(each);
    EXPECT_EQ(each.status().failed_rank(), 1);
    EXPECT_NE(each.status().message().find("cannot use RONDE_TRANSPORT=ofi: libfabric "), std::string::npos);
    EXPECT_NE(each.status().message().find("has no provider 'none'"), std::string::npos) << each.status().message();
  }
}

}  // namespace
}  // namespace ronde::transport
