#include "base/stable_hash.h"

#include <gtest/gtest.h>

namespace ronde {
namespace {

TEST(StableHash, IsWhatItsSourcesSay) {
  EXPECT_EQ(stable_hash(""), 0xcbf29ce484222325u);
  EXPECT_EQ(stable_hash("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(mix(0), 0xe220a8397b1dcdafu);  // the first number of SplitMix64 with seed 0
}

}  // namespace
}  // namespace ronde
