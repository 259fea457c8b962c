#include "engine/membership/group_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "transport/peers.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// What the test says of the others.
class SaidPeers final : public transport::Peers {
 public:
  explicit SaidPeers(int size) : departures(static_cast<std::size_t>(size)), gave_up(static_cast<std::size_t>(size)) {}
  int self() const override { return 0; }
  int size() const override { return static_cast<int>(departures.size()); }
  void say_departed(transport::Departure) override {}
  void say_frozen(std::uint32_t, std::uint32_t) override {}
  void say_quiet(const std::vector<int>&) override {}
  void say_given_up() override {}
  void wake(int) override {}
  void wake_others() override {}
  transport::Departure departure(int member) const override { return departures[static_cast<std::size_t>(member)]; }
  std::uint32_t frozen_in(int) const override { return 0; }
  bool is_quiet_about(int, int) const override { return false; }
  bool has_given_up(int member) const override { return gave_up[static_cast<std::size_t>(member)]; }
  bool has_any_given_up() const override { return false; }

  std::vector<transport::Departure> departures;
  std::vector<bool> gave_up;
};

class GroupMembersTest : public testing::Test {
 protected:
  SaidPeers peers_{3};
  Deaths deaths_{peers_};
  GroupMembers members_{peers_, deaths_};
};

TEST_F(GroupMembersTest, OneHasGoneWhenNothingMoreCanComeOfIt) {
  EXPECT_THAT(members_.gone(), IsEmpty());
  peers_.departures[1] = transport::Departure::in_order;
  EXPECT_FALSE(members_.has_gone(1)) << "it still serves the others";
  deaths_.notice(1);
  EXPECT_TRUE(members_.has_gone(1));
  EXPECT_FALSE(deaths_.any()) << "no loss";
  peers_.departures[2] = transport::Departure::final;
  EXPECT_THAT(members_.gone(), ElementsAre(1, 2));
  peers_.departures[0] = transport::Departure::final;
  EXPECT_THAT(members_.gone(), ElementsAre(1, 2)) << "this one is no other";
}

TEST_F(GroupMembersTest, MemoryIsSafeWhenEachOtherHasGoneDiedStoppedOrGivenUp) {
  EXPECT_TRUE(members_.may_any_touch());
  peers_.gave_up[1] = true;
  EXPECT_THAT(members_.given_up(), ElementsAre(1));
  EXPECT_TRUE(members_.may_any_touch()) << "member 2";
  deaths_.notice(2);
  EXPECT_FALSE(members_.may_any_touch());
}

}  // namespace
}  // namespace ronde::engine
