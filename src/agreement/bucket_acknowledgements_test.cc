#include "agreement/bucket_acknowledgements.h"

#include <gtest/gtest.h>

namespace ronde::agreement {
namespace {

using Outcome = BucketAcknowledgements::Outcome;

TEST(BucketAcknowledgements, TellWhenAllHavePrepared) {
  BucketAcknowledgements acknowledgements(3);
  acknowledgements.expect(7);
  EXPECT_EQ(acknowledgements.on_prepared(2, 7, false), Outcome::pending);
  EXPECT_EQ(acknowledgements.on_prepared(0, 7, false), Outcome::pending);
  EXPECT_EQ(acknowledgements.on_prepared(1, 7, false), Outcome::all);
  EXPECT_EQ(acknowledgements.on_prepared(1, 7, false), Outcome::invalid) << "once";
}

TEST(BucketAcknowledgements, OneThatRefusesIsKnownOnceAllHaveAnswered) {
  BucketAcknowledgements acknowledgements(3);
  acknowledgements.expect(7);
  EXPECT_EQ(acknowledgements.on_prepared(0, 7, true), Outcome::pending);
  EXPECT_EQ(acknowledgements.on_prepared(1, 7, false), Outcome::pending);
  EXPECT_EQ(acknowledgements.on_prepared(2, 7, false), Outcome::refused);
}

TEST(BucketAcknowledgements, TellWhenAllHaveFreed) {
  BucketAcknowledgements acknowledgements(2);
  acknowledgements.expect(7);
  acknowledgements.expect(8);
  EXPECT_EQ(acknowledgements.on_free(1, 7), Outcome::pending) << "before others are prepared";
  EXPECT_EQ(acknowledgements.on_free(1, 8), Outcome::pending);
  EXPECT_EQ(acknowledgements.on_free(0, 7), Outcome::all);
  EXPECT_EQ(acknowledgements.on_free(0, 7), Outcome::invalid) << "it is gone";
  EXPECT_EQ(acknowledgements.on_free(0, 8), Outcome::all);
}

TEST(BucketAcknowledgements, SaidTwiceOrOfNoBucketAreInvalid) {
  BucketAcknowledgements acknowledgements(2);
  EXPECT_EQ(acknowledgements.on_prepared(0, 7, false), Outcome::invalid);
  EXPECT_EQ(acknowledgements.on_free(0, 7), Outcome::invalid);
  acknowledgements.expect(7);
  EXPECT_EQ(acknowledgements.on_prepared(0, 7, false), Outcome::pending);
  EXPECT_EQ(acknowledgements.on_prepared(0, 7, true), Outcome::invalid);
  EXPECT_EQ(acknowledgements.on_free(0, 7), Outcome::pending);
  EXPECT_EQ(acknowledgements.on_free(0, 7), Outcome::invalid);
  EXPECT_EQ(acknowledgements.on_prepared(1, 7, false), Outcome::all) << "what was invalid has counted for nothing";
}

TEST(BucketAcknowledgements, OfAWorldOfOneAreTheFirst) {
  BucketAcknowledgements acknowledgements(1);
  acknowledgements.expect(0);
  EXPECT_EQ(acknowledgements.on_prepared(0, 0, false), Outcome::all);
  EXPECT_EQ(acknowledgements.on_free(0, 0), Outcome::all);
}

}  // namespace
}  // namespace ronde::agreement
