#include "engine/plans/table_in_force.h"

#include <gtest/gtest.h>

#include "engine/testing/recording_backend.h"

namespace ronde::engine {
namespace {

TEST(TableInForce, IsTheBackendsFirstUntilTheLogSaysAnother) {
  RecordingBackend backend;
  const TableInForce table(backend);
  backend.first.one_shot = 5;  // rank 0 tells it while ranks meet
  EXPECT_EQ(table.get().one_shot, 5u);
}

TEST(TableInForce, IsTheLastThatWasSet) {
  RecordingBackend backend;
  TableInForce table(backend);
  table.set({.one_shot = 7});
  backend.first.one_shot = 5;
  EXPECT_EQ(table.get().one_shot, 7u);
  table.set({.one_shot = 8});
  EXPECT_EQ(table.get().one_shot, 8u);
}

}  // namespace
}  // namespace ronde::engine
