#include "agreement/refused_calls.h"

#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

TEST(RefusedCalls, AreKnownUntilManyOthersHaveCome) {
  RefusedCalls refused;
  refused.add("first");
  refused.add("first");
  for (std::size_t i = 1; i < RefusedCalls::kMost; ++i) {
    refused.add(std::to_string(i));
  }
  EXPECT_TRUE(refused.contains("first")) << "twice is once";
  refused.add("one more");
  EXPECT_FALSE(refused.contains("first"));
  EXPECT_TRUE(refused.contains("1"));
  EXPECT_FALSE(refused.contains("never"));
}

}  // namespace
}  // namespace ronde::agreement
