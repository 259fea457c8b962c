// Sends and recvs between processes, by the C++ interface; the last test ends with the death of a sender.
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

using testing::HasSubstr;

class Messages : public testing::Test {
 protected:
  static void SetUpTestSuite() { ronde::init(); }
  static void TearDownTestSuite() { ronde::shutdown(); }
};

TEST_F(Messages, RoundTheRing) {
  const int right = (test::rank() + 1) % size();
  const int left = (test::rank() + size() - 1) % size();
  for (const std::size_t count : {0u, 1u, 600u, 40000u, 3000001u}) {
    std::vector<std::int32_t> out(count);
    std::iota(out.begin(), out.end(), test::rank());
    std::vector<std::int32_t> in(count, -1);
    const Ticket receiving = ronde::recv_async(in, {.name = "in", .peer = left, .tag = 3});
    const Ticket sending = ronde::send_async(out, {.name = "out", .peer = right, .tag = 3});
    receiving.wait();
    sending.wait();
    EXPECT_EQ(ronde::source_of(receiving), left);
    EXPECT_THROW(ronde::source_of(sending), Error);
    std::vector<std::int32_t> expected(count);
    std::iota(expected.begin(), expected.end(), left);
    EXPECT_EQ(in, expected) << count;
  }
}

TEST_F(Messages, EverybodyToTheFirst) {
  if (test::rank() == 0) {
    std::vector<int> seen(static_cast<std::size_t>(size()));
    for (int i = 1; i < size(); ++i) {
      double value = 0;
      const int source = ronde::recv(std::span(&value, 1), {.name = "any", .peer = kAnySource});
      EXPECT_EQ(value, source + 0.5);
      ++seen[static_cast<std::size_t>(source)];
    }
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), size() - 1);
  } else {
    const double value = test::rank() + 0.5;
    ronde::send(std::span(&value, 1), {.name = "mine", .peer = 0});
  }
}

TEST_F(Messages, TheTimeLimitNamesThePeer) {
  if (test::rank() == 0) {
    std::vector<float> values(3);
    try {
      ronde::recv(values, {.name = "never", .peer = 1, .timeout_s = 0.2});
      FAIL() << "nobody sends";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::timed_out);
      EXPECT_EQ(error.failed_rank(), 1);
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has not sent it"));
    }
  }
  ronde::barrier();
}

// Without a name they count for none of the calls that all ranks make.
TEST_F(Messages, WithoutANameTheyAreBesideTheOrderOfCalls) {
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(3, 4);
    if (test::rank() == 0) {
      ronde::send(values, {.peer = 1});
    } else if (test::rank() == 1) {
      ronde::recv(values, {.peer = 0});
    }
    std::vector<float> sum(1, 1);
    ronde::allreduce(sum, {.op = Op::sum});
    ASSERT_EQ(sum.front(), static_cast<float>(size()));
  }
}

TEST_F(Messages, WhoWaitsForTheDeadSaysSoWithinASecond) {
  const int victim = size() - 1;
  const std::string stamp = folder() + "/killed_at";
  std::vector<float> values(300000);
  if (test::rank() == victim) {
    expect_exit(128 + SIGKILL);
    ronde::barrier();
    std::ofstream(stamp) << std::fixed << now_seconds();
    ::kill(::getpid(), SIGKILL);
  }
  const Ticket waiting = ronde::recv_async(values, {.name = "from the dead", .peer = victim});
  try {
    ronde::barrier();
  } catch (const Error& error) {  // the victim may be dead before this rank is through
    EXPECT_EQ(error.code(), Code::peer_lost);
  }
  try {
    waiting.wait();
    FAIL() << "it was never sent";
  } catch (const Error& error) {
    double killed = 0;
    std::ifstream(stamp) >> killed;
    EXPECT_LT(now_seconds() - killed, 1.0);
    EXPECT_EQ(error.code(), Code::peer_lost);
    EXPECT_EQ(error.failed_rank(), victim);
    EXPECT_THAT(error.what(), HasSubstr("'from the dead'"));
  }
}

}  // namespace
}  // namespace ronde::test
