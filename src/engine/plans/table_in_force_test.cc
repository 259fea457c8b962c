#include "engine/plans/table_in_force.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TEST(TableInForce, IsTheLastThatWasSet) {
  TableInForce table({.one_shot = 5});
  EXPECT_EQ(table.get().one_shot, 5u);
  table.set({.one_shot = 7});
  EXPECT_EQ(table.get().one_shot, 7u);
}

}  // namespace
}  // namespace ronde::engine
