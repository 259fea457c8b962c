#include "types/call_sites.h"

#include <gtest/gtest.h>

namespace ronde {
namespace {

TEST(CallSites, ATextHasOneNumberAndANumberOneText) {
  const std::int32_t first = number_of_call_site("train.py:12");
  const std::int32_t second = number_of_call_site("train.py:13");
  EXPECT_GT(first, 0);
  EXPECT_NE(first, second);
  EXPECT_EQ(number_of_call_site("train.py:12"), first);
  ASSERT_NE(call_site_of(first), nullptr);
  EXPECT_EQ(*call_site_of(first), "train.py:12");
  EXPECT_EQ(*call_site_of(second), "train.py:13");
}

TEST(CallSites, WhatHasNoNumberIsUnknown) {
  for (const std::int32_t number : {0, -1, 65535, 65536, 2'000'000'000}) {
    EXPECT_EQ(call_site_of(number), nullptr) << number;
  }
}

TEST(CallSites, OfALongTextTheEndIsKept) {
  const std::string text = std::string(5000, 'x') + "/train.py:12";
  const std::string* const kept = call_site_of(number_of_call_site(text));
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->size(), 256u);
  EXPECT_TRUE(kept->ends_with("x/train.py:12"));
}

}  // namespace
}  // namespace ronde
