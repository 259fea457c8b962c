#include "base/core_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace ronde {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CoreSet, AThreadKeepsToItsCores) {
  std::thread([] {
    const std::vector<int> all = CoreSet::of_this_thread().cores();
    ASSERT_FALSE(all.empty());
    ASSERT_TRUE(CoreSet::only(all.back()).apply());
    EXPECT_THAT(CoreSet::of_this_thread().cores(), ElementsAre(all.back()));
  }).join();
}

TEST(CoreSet, NumbersBeyondAWord) {
  EXPECT_THAT(CoreSet::only(0).cores(), ElementsAre(0));
  EXPECT_THAT(CoreSet::only(64).cores(), ElementsAre(64));
  EXPECT_THAT(CoreSet::only(2047).cores(), ElementsAre(2047));
  EXPECT_FALSE(CoreSet::only(1 << 19).apply()) << "no machine has it";
}

TEST(CoreSet, TwoApartAreTwo) {
  EXPECT_THAT(two_apart({}), IsEmpty());
  EXPECT_THAT(two_apart({3}), IsEmpty());
  const std::vector<int> unknown = two_apart({1000001, 1000002, 1000003});
  EXPECT_THAT(unknown, ElementsAre(1000001, 1000002)) << "of which nothing is known";
}

}  // namespace
}  // namespace ronde
