#include "agreement/call_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CallPlaces, CallsTakeThePlacesInTurn) {
  CallPlaces places;
  EXPECT_EQ(places.find("plan"), nullptr);
  places.begin("plan", 1, 11);
  places.begin("plan", 0, 10);
  CallPlaces::Turns* const turns = places.find("plan");
  ASSERT_NE(turns, nullptr);
  for (const std::uint32_t expected : {10u, 11u, 10u}) {
    EXPECT_EQ(CallPlaces::next_place(*turns), expected);
    places.take(*turns);
  }
  EXPECT_TRUE(places.contains("plan"));
  places.end();
  EXPECT_FALSE(places.contains("plan"));
}

/// Makes calls of which one in `every` waits, until they are to be planned anew; how many that took.
int calls_until_crowded(CallPlaces& places, int every, int most) {
  CallPlaces::Turns& turns = *places.find("plan");
  for (int call = 1; call <= most; ++call) {
    places.take(turns);
    if (call % every == 0 && places.note_wait(turns)) {
      return call;
    }
  }
  return 0;
}

TEST(CallPlaces, CallsThatOftenWaitArePlannedAnewEachTimeAfterTwiceAsMany) {
  CallPlaces places;
  places.begin("plan", 0, 10);
  const int first = calls_until_crowded(places, 1, 10000);
  EXPECT_GT(first, 0);
  EXPECT_THAT(places.take_crowded(), ElementsAre("plan"));
  EXPECT_THAT(places.take_crowded(), IsEmpty()) << "once";
  places.end();
  places.begin("plan", 0, 10);
  EXPECT_EQ(calls_until_crowded(places, 1, 10000), 2 * first);
}

TEST(CallPlaces, CallsThatSeldomWaitStay) {
  CallPlaces places;
  places.begin("plan", 0, 10);
  EXPECT_EQ(calls_until_crowded(places, 5, 100000), 0);
}

TEST(CallPlaces, CallsAreNumbered) {
  CallPlaces places;
  EXPECT_EQ(places.next_order(), 1u);
  EXPECT_EQ(places.next_order(), 2u);
}

}  // namespace
}  // namespace ronde::agreement
