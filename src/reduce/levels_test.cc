#include "reduce/levels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/log.h"
#include "reduce/reduce.h"

namespace ronde::reduce {
namespace {

TEST(Levels, ScalarIsAlwaysThereAndFirst) {
  ASSERT_FALSE(levels().empty());
  EXPECT_EQ(levels().front(), "scalar");
  EXPECT_THAT(levels(), testing::Contains(level()));
}

TEST(Levels, BestUnlessNamed) {
  const std::vector<Level> levels{{"scalar", nullptr}, {"good", nullptr}, {"better", nullptr}};
  EXPECT_EQ(choose_level(levels, nullptr).name, "better");
  EXPECT_EQ(choose_level(levels, "").name, "better");
  EXPECT_EQ(choose_level(levels, "scalar").name, "scalar");
  EXPECT_EQ(choose_level(levels, "good").name, "good");
}

TEST(Levels, UnknownNameIsToldAndTheBestTaken) {
  std::vector<std::string> messages;
  set_log_sink([&](LogLevel, int, const std::string& message) { messages.push_back(message); });
  const std::vector<Level> levels{{"scalar", nullptr}, {"good", nullptr}};
  EXPECT_EQ(choose_level(levels, "best").name, "good");
  set_log_sink({});
  EXPECT_THAT(messages, testing::ElementsAre(testing::AllOf(testing::HasSubstr("RONDE_CPU_LEVEL is 'best'"),
                                                            testing::HasSubstr("using good (it has scalar, good)"))));
}

}  // namespace
}  // namespace ronde::reduce
