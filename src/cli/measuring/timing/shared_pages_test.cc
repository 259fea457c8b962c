#include "cli/measuring/timing/shared_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ronde::cli {
namespace {

TEST(SharedPages, AnotherMappingSeesTheSame) {
  SharedPages made = SharedPages::create(4096);
  ASSERT_TRUE(made.is_mapped());
  SharedPages opened = SharedPages::open(getpid(), made.descriptor(), 4096);
  ASSERT_TRUE(opened.is_mapped());
  EXPECT_NE(made.data(), opened.data());
  static_cast<char*>(made.data())[17] = 'x';
  EXPECT_EQ(static_cast<char*>(opened.data())[17], 'x');
}

TEST(SharedPages, WhatCannotBeOpenedIsNotMapped) {
  EXPECT_FALSE(SharedPages::open(getpid(), 987654, 4096).is_mapped());
}

}  // namespace
}  // namespace ronde::cli
