// What ranks disagree about, what one rank does wrong, what comes late: one clear error, and the job goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <ronde/ronde.hpp>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

using testing::HasSubstr;

class Errors : public testing::Test {
 protected:
  static void SetUpTestSuite() { ronde::init(); }
  static void TearDownTestSuite() { ronde::shutdown(); }

  /// The text of this rank's error, after checking that every rank has the same.
  static void expect_same_everywhere(const std::string& text) {
    const std::string file = folder() + "/text.";
    std::ofstream(file + std::to_string(test::rank())) << text;
    meet();
    for (int r = 0; r < size(); ++r) {
      std::ifstream in(file + std::to_string(r));
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text) << "rank " << r;
    }
    meet();
  }
};

TEST_F(Errors, ALoopWithAnotherShapeOnOneRank) {
  for (int i = 0; i < 50; ++i) {
    std::vector<float> values(test::rank() == 1 ? 3 : 2, 1);
    std::string text;
    try {
      ronde::allreduce(values, {.name = "x", .op = Op::sum});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::mismatch);
      EXPECT_EQ(error.tensor(), "x");
      text = error.what();
    }
    ASSERT_THAT(text, HasSubstr("disagree about the shape of 'x'"));
    ASSERT_THAT(text, HasSubstr("rank 1 asked for allreduce (sum) of float32 [3]"));
    if (i == 0) {
      expect_same_everywhere(text);
    }
    std::vector<float> good(4, 1);
    ronde::allreduce(good, {.name = "good", .op = Op::sum});
    ASSERT_EQ(good, std::vector<float>(4, static_cast<float>(size())));
  }
}

TEST_F(Errors, ALateRankReceivesTheErrorItOwes) {
  std::vector<float> values(2, 1);
  if (test::rank() != 1) {
    try {
      ronde::allreduce(values, {.name = "late", .timeout_s = 0.2});
      FAIL() << "nobody else submits it";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::timed_out);
      EXPECT_EQ(error.failed_rank(), 1);
      EXPECT_THAT(error.what(), HasSubstr("rank 1 did not submit it"));
    }
  }
  meet();
  if (test::rank() == 1) {
    EXPECT_THROW(ronde::allreduce(values, {.name = "late"}), Error);
  }
  ronde::allreduce(values, {.name = "late", .op = Op::sum});
  EXPECT_EQ(values[0], static_cast<float>(size()));
}

// In the header, before the request can be read, by the engine: the other ranks are told, and all stay in step.
TEST_F(Errors, AnUnnamedCallThatIsRefusedOnOneRankCounts) {
  const std::vector<std::int64_t> too_many(33, 1);
  for (int i = 0; i < 30; ++i) {
    std::vector<float> values(1, 1);
    const bool is_bad = test::rank() == 1;
    try {
      if (i % 3 == 0) {
        ronde::allreduce({values, is_bad ? too_many : std::vector<std::int64_t>{1}}, {.op = Op::sum});
      } else if (i % 3 == 1) {
        ronde::allreduce(values, {.op = Op::sum, .prescale = is_bad ? 0.0 : 1.0});
      } else {
        ronde::allreduce(values, {.op = is_bad ? Op{77} : Op::sum});
      }
      FAIL() << "rank 1 does not make it";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), is_bad ? Code::invalid_argument : Code::mismatch) << error.what();
      if (!is_bad) {
        EXPECT_EQ(error.failed_rank(), 1);
        EXPECT_THAT(error.what(), HasSubstr("it was refused there"));
      }
    }
    std::vector<float> good(1, 1);
    ronde::allreduce(good, {.op = Op::sum});
    ASSERT_EQ(good.front(), static_cast<float>(size()));
  }
}

TEST_F(Errors, ANameIsTakenUntilItsTicketIsWaitedFor) {
  std::vector<float> values(2, 1);
  std::vector<float> others(2, 1);
  const Ticket first = ronde::allreduce_async(values, {.name = "taken"});
  EXPECT_THROW(ronde::allreduce_async(others, {.name = "taken"}), Error);
  ASSERT_TRUE(eventually([&] { return first.is_done(); }, 20));
  EXPECT_THROW(ronde::allreduce_async(others, {.name = "taken"}), Error) << "done is not waited for";
  first.wait();
  ronde::allreduce(others, {.name = "taken"});
}

TEST_F(Errors, OfTheCallItself) {
  std::vector<float> values(2, 1);
  EXPECT_THROW(ronde::allreduce(values, {.name = ""}), Error);
  EXPECT_THROW(ronde::broadcast(values, {.name = "x", .root = size()}), Error);
  ronde_request request{};
  EXPECT_EQ(ronde_execute(nullptr, &request, -1, nullptr), RONDE_INVALID_ARGUMENT);
  EXPECT_THAT(ronde_last_error(), HasSubstr("struct_size"));
  EXPECT_EQ(ronde_submit(nullptr, nullptr, nullptr), RONDE_INVALID_ARGUMENT);
  request.struct_size = sizeof request;
  request.op = RONDE_ALLTOALL;
  request.name = "a2a";
  request.name_bytes = 3;
  EXPECT_EQ(ronde_execute(nullptr, &request, -1, nullptr), RONDE_INVALID_ARGUMENT);
  EXPECT_THAT(ronde_last_error(), HasSubstr("no tensor was given"));
  EXPECT_EQ(ronde_group_create(nullptr, nullptr, 0, nullptr), RONDE_INVALID_ARGUMENT);
  EXPECT_THAT(ronde_last_error(), HasSubstr("group is null"));
}

}  // namespace
}  // namespace ronde::test
