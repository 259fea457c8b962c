#include "engine/requests/call_list.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TEST(CallList, OneCallIsAskedForAsOfNow) {
  EXPECT_EQ(CallList().asked_at(0), 0u);
  EXPECT_EQ(CallList().asked_at(7), 7u);
}

TEST(CallList, AllCallsAreAskedForAsOfTheFirst) {
  CallList list;
  EXPECT_EQ(list.asked_at(5), 5u);
  EXPECT_EQ(list.asked_at(5), 5u);
  EXPECT_EQ(list.asked_at(9), 5u);
}

}  // namespace
}  // namespace ronde::engine
