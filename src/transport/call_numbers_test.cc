#include "transport/call_numbers.h"

#include <gtest/gtest.h>

namespace ronde::transport {
namespace {

TEST(CallNumbers, AreGivenOutFromZeroOn) {
  CallNumbers numbers;
  EXPECT_EQ(numbers.taken(), 0);
  EXPECT_EQ(numbers.take(), 0);
  EXPECT_EQ(numbers.take(), 1);
  EXPECT_EQ(numbers.take(), 2);
  EXPECT_EQ(numbers.taken(), 3);
}

TEST(CallNumbers, ThatComeBackAreGivenOutFirst) {
  CallNumbers numbers;
  for (int call = 0; call < 130; ++call) {
    EXPECT_EQ(numbers.take(), call);
  }
  numbers.give_back(65);
  numbers.give_back(7);
  EXPECT_EQ(numbers.taken(), 128);
  EXPECT_EQ(numbers.take(), 7);
  EXPECT_EQ(numbers.take(), 65);
  EXPECT_EQ(numbers.take(), 130);
}

TEST(CallNumbers, AreAsManyAsTheLineHasBits) {
  CallNumbers numbers;
  for (int call = 0; call < kCallBits; ++call) {
    EXPECT_EQ(numbers.take(), call);
  }
  EXPECT_EQ(numbers.take(), std::nullopt);
  EXPECT_EQ(numbers.taken(), kCallBits);
  numbers.give_back(kCallBits - 1);
  EXPECT_EQ(numbers.take(), kCallBits - 1);
  EXPECT_EQ(numbers.take(), std::nullopt);
}

}  // namespace
}  // namespace ronde::transport
