#include "backend/oneccl/oneccl_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ronde::backend::oneccl {
namespace {

// What it does with a library that works, the tests of ranks see (ranks_by_oneccl, through a stand-in).
TEST(OneCclWorld, ARankWithoutALibrarySaysSoToTheOthers) {
  ::setenv("RONDE_ONECCL_LIBRARY", "/nowhere/libccl.so.2", 1);
  std::vector<std::vector<std::byte>> said;
  const auto exchange = [&](std::vector<std::byte> own) -> Result<std::vector<std::vector<std::byte>>> {
    said.push_back(std::move(own));
    return said;
  };
  const auto joined = OneCclWorld::join(0, 2, exchange, kSecond);
  ::unsetenv("RONDE_ONECCL_LIBRARY");
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.status().code(), Code::invalid_argument);
  EXPECT_THAT(joined.status().message(), testing::HasSubstr("RONDE_ONECCL_LIBRARY cannot be opened: /nowhere/"));
  ASSERT_EQ(said.size(), 1u) << "nobody waits for this rank";
  EXPECT_TRUE(said[0].empty());
}

}  // namespace
}  // namespace ronde::backend::oneccl
