#include "engine/replay/observed_instance.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TEST(ObservedInstance, NothingIsKnownOfAnInstanceThatNobodyHasSeen) {
  ObservedInstance observed;
  const observe::Instance instance = observed.done(1, 50);
  EXPECT_EQ(instance.number, 1u);
  EXPECT_EQ(instance.published, 0);
  EXPECT_EQ(instance.met, 0);
  EXPECT_EQ(instance.done, 50);
}

TEST(ObservedInstance, HasTheTimeOfEachStage) {
  ObservedInstance observed;
  observed.published(10);
  observed.met(20);
  observed.met(30);
  const observe::Instance instance = observed.done(4, 40);
  EXPECT_EQ(instance.number, 4u);
  EXPECT_EQ(instance.published, 10);
  EXPECT_EQ(instance.met, 20) << "the first look that finds all of them";
  EXPECT_EQ(instance.done, 40);
}

TEST(ObservedInstance, TheNextInstanceBeginsAnew) {
  ObservedInstance observed;
  observed.published(10);
  observed.met(20);
  observed.done(4, 40);
  observed.met(60);
  const observe::Instance next = observed.done(5, 70);
  EXPECT_EQ(next.published, 0);
  EXPECT_EQ(next.met, 60);
}

TEST(ObservedInstance, AnotherObserverHearsNothingOfBefore) {
  ObservedInstance observed;
  observed.published(10);
  observed.met(20);
  observed.forget();
  EXPECT_EQ(observed.done(1, 30).published, 0);
}

}  // namespace
}  // namespace ronde::engine
