// Groups of ranks (process sets) between processes, by the C++ interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <ronde/ronde.hpp>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

using testing::HasSubstr;

std::vector<int> every_other(int first) {
  std::vector<int> ranks;
  for (int rank = first; rank < size(); rank += 2) {
    ranks.push_back(rank);
  }
  return ranks;
}

float sum_of(const std::vector<int>& ranks) {
  return static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0) + static_cast<int>(ranks.size()));
}

TEST(Groups, EvenAndOddRanksEachAddUpTheirOwn) {
  const Session session;
  const Group even = make_group(every_other(0));
  const Group odd = make_group(every_other(1));
  const std::vector<int> own = every_other(test::rank() % 2);
  const Group group = test::rank() % 2 == 0 ? even : odd;
  for (const std::size_t count : {0u, 1u, 14u, 2049u, 65537u, 1000001u}) {
    for (int step = 0; step < 5; ++step) {
      std::vector<float> values(count, static_cast<float>(test::rank() + 1));
      ronde::allreduce(values, {.name = "x", .op = Op::sum, .group = group});
      ASSERT_EQ(values, std::vector<float>(count, sum_of(own))) << count;
    }
  }
  const std::vector<double> rows(static_cast<std::size_t>(test::rank() + 1), test::rank());
  const auto gathered = ronde::allgather(rows, {.name = "rows", .group = group});
  std::vector<double> expected;
  for (int rank : own) {
    expected.insert(expected.end(), static_cast<std::size_t>(rank + 1), rank);
  }
  const auto all = gathered.view();
  EXPECT_EQ(std::vector<double>(all.begin(), all.end()), expected);
  const auto members = static_cast<float>(own.size());
  std::vector<float> values(100, members);
  ronde::allreduce(values, {.name = "mean", .group = group});
  EXPECT_EQ(values.front(), members) << "the average is over the group";
  ronde::barrier({.name = "all"});
  destroy_group(odd);
  destroy_group(even);
}

TEST(Groups, SharedTensorsAreReducedWhereTheyLie) {
  const Session session;
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  const Group group = make_group(all);
  SharedBuffer buffer("bucket", 1 << 20);
  const std::span<float> values = buffer.as<float>();
  const std::size_t count = (1 << 20) / sizeof(float);
  ronde_counters before{};
  before.struct_size = sizeof(before);
  ASSERT_EQ(ronde_get_counters(nullptr, &before), RONDE_OK);
  for (int step = 0; step < 20; ++step) {
    std::fill_n(values.data(), count, static_cast<float>(test::rank() + 1));
    ronde::allreduce(values, {.name = "bucket", .op = Op::sum, .group = group});
    ASSERT_EQ(values[0], sum_of(all));
    ASSERT_EQ(values[count - 1], sum_of(all));
  }
  ronde_counters after = before;
  ASSERT_EQ(ronde_get_counters(nullptr, &after), RONDE_OK);
  EXPECT_EQ(after.direct_bytes - before.direct_bytes, shares_memory() ? 20u << 20 : 0u);
  EXPECT_GT(after.replayed, before.replayed) << "a group has a replay of its own";
}

TEST(Groups, ADeathEndsTheGroupsOfTheDeadOnly) {
  if (size() < 5) {
    return;
  }
  ronde::init();
  const int victim = size() - 1;  // with an even number, so ranks of odd numbers are not concerned
  const Group even = make_group(every_other(0));
  const Group odd = make_group(every_other(1));
  const bool is_concerned = test::rank() % 2 == 0;
  std::vector<float> values(1000);
  if (test::rank() == victim) {
    expect_exit(128 + SIGKILL);
  }
  if (is_concerned) {
    try {
      for (int i = 0;; ++i) {
        ronde::allreduce(values, {.name = "x", .group = even});
        if (test::rank() == victim && i == 50) {
          ::kill(::getpid(), SIGKILL);
        }
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::peer_lost);
      EXPECT_EQ(error.failed_rank(), victim);
      EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(victim) + " (host "));
    }
  }
  test::meet();  // the living, after the death
  if (!is_concerned) {
    for (int i = 0; i < 200; ++i) {
      values.assign(1000, static_cast<float>(test::rank() + 1));
      ASSERT_NO_THROW(ronde::allreduce(values, {.name = "x", .op = Op::sum, .group = odd}));
      ASSERT_EQ(values[999], sum_of(every_other(1)));
    }
  }
  EXPECT_THROW(ronde::allreduce(values, {.name = "all"}), Error) << "the job's own group has lost a rank";
  test::meet();
  ronde::shutdown();
}

}  // namespace
}  // namespace ronde::test
