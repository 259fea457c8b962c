// One group of ranks fails by a time-out, with all its members alive: every call on the job's own group and on the
// other groups goes on, with the results and in the way it had before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <numeric>
#include <ronde/ronde.hpp>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

constexpr std::size_t kCount = 100000;

std::vector<int> all_ranks() {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

float sum_of_ranks() { return static_cast<float>(size() * (size() + 1) / 2); }

void write_note(const std::string& name, int number) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path + ".part") << number;
  ASSERT_EQ(std::rename((path + ".part").c_str(), path.c_str()), 0);
}

int read_note(const std::string& name) {
  int number = 0;
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(std::ifstream(folder() + "/" + name) >> number); }, 60))
      << name;
  return number;
}

std::uint64_t direct_bytes() {
  ronde_counters counters{};
  counters.struct_size = sizeof(counters);
  EXPECT_EQ(ronde_get_counters(nullptr, &counters), RONDE_OK);
  return counters.direct_bytes;
}

void allreduce_in(Group group, std::span<float> values, std::string_view name = "bucket") {
  std::fill(values.begin(), values.end(), static_cast<float>(test::rank() + 1));
  ronde::allreduce(values, {.name = name, .op = Op::sum, .timeout_s = 1, .group = group});
  ASSERT_EQ(values.front(), sum_of_ranks());
  ASSERT_EQ(values.back(), sum_of_ranks());
}

/// The last rank stops, as by Ctrl-Z, while `group` replays; the others' next all-reduce in it ends with an error.
void make_fail(Group group, std::span<float> values) {
  const int victim = size() - 1;
  for (int step = 0; step < 10; ++step) {
    ASSERT_NO_FATAL_FAILURE(allreduce_in(group, values));
  }
  if (test::rank() == victim) {
    write_note("victim", ::getpid());
    ::kill(::getpid(), SIGSTOP);
  } else {
    const int process = read_note("victim");
    try {
      allreduce_in(group, values);
      ADD_FAILURE() << "one rank is stopped";
    } catch (const Error& error) {
      // Of the rest the first to give up is seen by the others as one that has left.
      EXPECT_TRUE(error.code() == Code::timed_out || error.code() == Code::peer_left) << error.what();
    }
    write_note("failed." + std::to_string(test::rank()), 1);
    if (test::rank() == 0) {
      for (int rank = 0; rank < victim; ++rank) {
        read_note("failed." + std::to_string(rank));
      }
      ::kill(process, SIGCONT);
    }
  }
  test::meet();
  EXPECT_THROW(allreduce_in(group, values), Error) << "the group is not usable any more";
  test::meet();  // the rank that was stopped may have begun what the others have given up
}

void check_reductions(Group group) {
  std::vector<float> values(kCount, 1.F);
  for (int step = 0; step < 5; ++step) {
    std::fill(values.begin(), values.end(), static_cast<float>(test::rank() + 1));
    ronde::allreduce(values, {.name = "x", .op = Op::sum, .group = group});
    ASSERT_EQ(values.back(), sum_of_ranks());
  }
  std::vector<float> second(10, 1);
  std::fill(values.begin(), values.end(), 1.F);
  ronde::grouped_allreduce({values, second}, {.name = "two", .op = Op::sum, .group = group});
  EXPECT_EQ(values.back() + second.back(), static_cast<float>(2 * size()));
  std::fill(values.begin(), values.end(), 1.F);
  ronde::reduce(values, {.name = "reduce", .root = 1, .op = Op::sum, .group = group});
  EXPECT_EQ(values.back(), test::rank() == 1 ? static_cast<float>(size()) : 1.F);
  const std::vector<float> rows(static_cast<std::size_t>(size()), 2);
  const auto scattered = ronde::reducescatter<float>(rows, {.name = "rows", .op = Op::sum, .group = group});
  EXPECT_EQ(scattered.view().front(), static_cast<float>(2 * size()));
}

void check_movements(Group group) {
  std::vector<float> values(kCount, static_cast<float>(test::rank()));
  ronde::broadcast(values, {.name = "from 1", .root = 1, .group = group});
  EXPECT_EQ(values.back(), 1.F);
  const std::vector<float> row(1, static_cast<float>(test::rank()));
  EXPECT_EQ(ronde::allgather<float>(row, {.name = "gather", .group = group}).view()[1], 1.F);
  const std::vector<float> rows(static_cast<std::size_t>(size()), static_cast<float>(test::rank()));
  EXPECT_EQ(ronde::alltoall<float>(rows, {.name = "exchange", .group = group}).view()[1], 1.F);
  const auto gathered = ronde::gather<float>(row, {.name = "to 0", .root = 0, .group = group});
  EXPECT_EQ(gathered.view().size(), test::rank() == 0 ? static_cast<std::size_t>(size()) : 0u);
  EXPECT_EQ(ronde::scatter<float>(rows, {.name = "of 0", .root = 0, .group = group}).view().size(), 1u);
  if (test::rank() == 0) {
    ronde::send(values, {.name = "message", .peer = 1, .group = group});
  } else if (test::rank() == 1) {
    EXPECT_EQ(ronde::recv(values, {.name = "message", .peer = 0, .group = group}), 0);
  }
  ronde::barrier({.name = "barrier", .group = group});
  EXPECT_GE(ronde::join({.name = "join", .group = group}), 0);
}

/// Memory is shared as before: what is asked for is given, and reduced in place. Under a name of its own: one that was
/// planned for private memory, which what the stopped rank could still write to has become, stays so.
void check_shared_memory(Group group) {
  SharedBuffer buffer("later", kCount * sizeof(float));
  const std::uint64_t before = direct_bytes();
  for (int step = 0; step < 10; ++step) {
    ASSERT_NO_FATAL_FAILURE(allreduce_in(group, buffer.as<float>(), "later"));
  }
  EXPECT_EQ(direct_bytes() - before, shares_memory() ? 10 * kCount * sizeof(float) : 0);
}

void check_everything(Group group) {
  check_reductions(group);
  check_movements(group);
  check_shared_memory(group);
}

TEST(GroupFails, TheJobAndTheOtherGroupsGoOn) {
  ronde::init();
  const Group failing = make_group(all_ranks());
  const Group other = make_group(all_ranks());
  SharedBuffer buffer("bucket", kCount * sizeof(float));
  ASSERT_NO_FATAL_FAILURE(make_fail(failing, buffer.as<float>()));

  check_everything({});
  check_everything(other);
  const Group later = make_group(all_ranks());
  check_everything(later);
  destroy_group(failing);
  destroy_group(later);
  check_everything({});
  ronde::shutdown();
}

TEST(GroupFails, MemoryThatTheFailedGroupKnewServesTheJob) {
  ronde::init();
  const Group failing = make_group(all_ranks());
  {
    SharedBuffer buffer("bucket", kCount * sizeof(float));
    ASSERT_NO_FATAL_FAILURE(make_fail(failing, buffer.as<float>()));
    for (int step = 0; step < 10; ++step) {
      ASSERT_NO_FATAL_FAILURE(allreduce_in({}, buffer.as<float>()));
    }
  }
  check_shared_memory({});
  ronde::shutdown();
}

}  // namespace
}  // namespace ronde::test
