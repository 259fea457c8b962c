#include "engine/core/called_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CalledGroupsTest : public testing::Test {
 protected:
  std::vector<int> called() {
    std::vector<int> found;
    groups_.each([&found](int call) { found.push_back(call); });
    return found;
  }

  const std::unique_ptr<transport::CallLine> line_ = std::make_unique<transport::CallLine>();
  CalledGroups groups_{*line_};
};

TEST_F(CalledGroupsTest, ThoseThatAreCalledAndNotAwake) {
  groups_.reserve(3);
  groups_.reserve(200);
  EXPECT_FALSE(groups_.any());
  groups_.call(200);
  groups_.call(3);
  groups_.call(64);
  EXPECT_TRUE(groups_.any());
  EXPECT_THAT(called(), ElementsAre(3, 64, 200));
  groups_.set_awake(64);
  EXPECT_THAT(called(), ElementsAre(3, 200));
  groups_.set_at_rest(64);
  EXPECT_THAT(called(), ElementsAre(3, 64, 200)) << "its call was not taken back";
}

TEST_F(CalledGroupsTest, ACallIsTakenBackOnce) {
  groups_.reserve(63);
  groups_.call(63);
  groups_.take_back(63);
  EXPECT_FALSE(groups_.any());
  groups_.call(63);
  EXPECT_THAT(called(), ElementsAre(63));
}

TEST_F(CalledGroupsTest, WhoeverIsWokenMeanwhileIsVisitedOnce) {
  groups_.reserve(10);
  groups_.call(1);
  groups_.call(2);
  std::vector<int> visited;
  groups_.each([&](int call) {
    groups_.set_awake(call);
    visited.push_back(call);
  });
  EXPECT_THAT(visited, ElementsAre(1, 2));
  EXPECT_FALSE(groups_.any());
}

TEST_F(CalledGroupsTest, WithoutRoomNobodyIsCalled) {
  groups_.call(70);
  EXPECT_THAT(called(), IsEmpty());
  groups_.reserve(70);
  EXPECT_THAT(called(), ElementsAre(70)) << "a call that came before its group";
}

}  // namespace
}  // namespace ronde::engine
