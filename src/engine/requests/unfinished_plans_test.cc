#include "engine/requests/unfinished_plans.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TEST(UnfinishedPlans, ARequestInOnePlanEndsWithIt) {
  UnfinishedPlans plans;
  EXPECT_TRUE(plans.status());
  plans.expect(1);
  EXPECT_TRUE(plans.finished({}));
  EXPECT_TRUE(plans.status());
}

TEST(UnfinishedPlans, ARequestInSeveralPlansEndsWithTheLast) {
  UnfinishedPlans plans;
  plans.expect(3);
  EXPECT_FALSE(plans.finished({}));
  EXPECT_FALSE(plans.finished({}));
  EXPECT_TRUE(plans.finished({}));
}

TEST(UnfinishedPlans, TheFirstFailureIsTheRequests) {
  UnfinishedPlans plans;
  plans.expect(3);
  EXPECT_FALSE(plans.finished(Status::error(Code::peer_lost, "first")));
  EXPECT_FALSE(plans.finished(Status::error(Code::timed_out, "second")));
  EXPECT_TRUE(plans.finished({}));
  EXPECT_EQ(plans.status().message(), "first");
}

TEST(UnfinishedPlans, TheNextSubmitBeginsAnew) {
  UnfinishedPlans plans;
  plans.expect(2);
  plans.finished(Status::error(Code::peer_lost, "first"));
  plans.expect(1);
  EXPECT_TRUE(plans.status());
  EXPECT_TRUE(plans.finished({}));
}

}  // namespace
}  // namespace ronde::engine
