#include "site/membership.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "site/testing/variables.h"

namespace ronde::site {
namespace {

using Recorded = std::map<std::string, std::string>;

Recorded of_rank(int rank, int size, const Recorded& more) {
  Recorded variables{{"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", std::to_string(size)},
                     {"MASTER_ADDR", "localhost"},
                     {"MASTER_PORT", "1"}};
  for (const auto& [name, value] : more) {
    variables[name] = value;
  }
  return variables;
}

TEST(Membership, OfAProcessThatNobodyHasStartedIsNone) {
  const Result<std::unique_ptr<Membership>> alone = Membership::join(recorded({}), kSecond);
  ASSERT_TRUE(alone);
  EXPECT_FALSE(alone.value());
}

TEST(Membership, RanksOfOneHostMeetByAFile) {
  const store::PrivateFolder folder = std::move(store::PrivateFolder::create()).value();
  constexpr int kRanks = 3;
  std::vector<std::unique_ptr<Membership>> all(kRanks);
  std::vector<Status> failures(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const Recorded variables = of_rank(rank, kRanks, {{"XDG_RUNTIME_DIR", folder.path()}});
      Result<std::unique_ptr<Membership>> membership = Membership::join(recorded(variables), 20 * kSecond);
      failures[static_cast<std::size_t>(rank)] = membership.status();
      all[static_cast<std::size_t>(rank)] = membership ? std::move(*membership) : nullptr;
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto& membership = all[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(membership) << failures[static_cast<std::size_t>(rank)].message();
    const Joined& joined = membership->joined();
    EXPECT_EQ(joined.rank, rank);
    EXPECT_EQ(joined.layout.local_rank, rank);
    EXPECT_EQ(joined.layout.local_size, kRanks);
    EXPECT_EQ(joined.layout.cross_size, 1);
    EXPECT_EQ(joined.key, all[0]->joined().key);
    EXPECT_TRUE(joined.store.starts_with("unix:/"));
  }
  const std::string left = folder.path() + "/ronde-jobs-of-" + std::to_string(::geteuid());
  EXPECT_EQ(::rmdir(left.c_str()), 0);  // with no file in it
}

TEST(Membership, WithoutAKeySeveralHostsAreRefusedWithTheWaysOut) {
  for (const int rank : {0, 1}) {
    const Recorded variables = of_rank(rank, 2, {{"MASTER_ADDR", "10.9.9.9"}, {"LOCAL_WORLD_SIZE", "1"}});
    const Status refused = Membership::join(recorded(variables), kSecond).status();
    EXPECT_EQ(refused.code(), Code::invalid_argument);
    for (const char* way : {"RONDE_KEY (openssl rand -hex 32)", "RONDE_KEY_FILE", "RONDE_TRUST_NETWORK=1"}) {
      EXPECT_NE(refused.message().find(way), std::string::npos) << refused.message();
    }
  }
}

TEST(Membership, WithoutItsOthersEndsInTimeWithASentence) {
  const store::PrivateFolder folder = std::move(store::PrivateFolder::create()).value();
  const Recorded zero = of_rank(0, 2, {{"XDG_RUNTIME_DIR", folder.path()}});
  const Status alone = Membership::join(recorded(zero), 2 * kSecond).status();
  EXPECT_EQ(alone.code(), Code::timed_out);
  EXPECT_NE(alone.message().find("missing: rank 1"), std::string::npos) << alone.message();
  ::rmdir((folder.path() + "/ronde-jobs-of-" + std::to_string(::geteuid())).c_str());
}

TEST(OwnAddress, IsTheOneThatIsSaid) {
  EXPECT_EQ(choose_own_address("localhost", recorded({{"RONDE_ADDRESS", "10.1.1.1"}})).value(), "10.1.1.1");
  EXPECT_EQ(choose_own_address("", recorded({{"RONDE_SOCKET_IFNAME", "=lo"}})).value(), "127.0.0.1");
  EXPECT_EQ(choose_own_address("127.0.0.1", recorded({})).value(), "127.0.0.1");
  const Status none = choose_own_address("", recorded({{"RONDE_SOCKET_IFNAME", "=no0"}})).status();
  EXPECT_EQ(none.code(), Code::invalid_argument);
  EXPECT_NE(none.message().find("lo (127.0.0.1)"), std::string::npos) << none.message();
}

}  // namespace
}  // namespace ronde::site
