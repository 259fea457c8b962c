#include "cli/measuring/workload/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::cli {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(Sizes, UnitsArePowersOfTwo) {
  EXPECT_THAT(parse_size("8"), Optional(8u));
  EXPECT_THAT(parse_size("1K"), Optional(1024u));
  EXPECT_THAT(parse_size("64k"), Optional(65536u));
  EXPECT_THAT(parse_size("3M"), Optional(3u << 20));
  EXPECT_THAT(parse_size("4G"), Optional(std::uint64_t{4} << 30));
  EXPECT_THAT(parse_size("0"), Optional(0u));
}

TEST(Sizes, OtherTextIsRefused) {
  for (const char* text : {"", "K", "-1", "1.5M", "1KB", "1 K", " 1", "0x10", "18446744073709551616", "8589934592G"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(Sizes, Lists) {
  EXPECT_THAT(parse_sizes("8,1K,2M"), Optional(ElementsAre(8, 1024, 2 << 20)));
  EXPECT_THAT(parse_sizes("7"), Optional(ElementsAre(7)));
  for (const char* text : {"", ",", "8,", ",8", "8,,9", "8;9"}) {
    EXPECT_EQ(parse_sizes(text), std::nullopt) << text;
  }
}

TEST(Sizes, TextUsesTheLargestUnitThatDivides) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(1000), "1000");
  EXPECT_EQ(size_text(1024), "1K");
  EXPECT_EQ(size_text(1536), "1536");
  EXPECT_EQ(size_text(64 << 20), "64M");
  EXPECT_EQ(size_text(std::uint64_t{2} << 30), "2G");
}

}  // namespace
}  // namespace ronde::cli
