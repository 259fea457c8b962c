#include "store/interfaces.h"

#include <gtest/gtest.h>

namespace ronde::store {
namespace {

const std::vector<InterfaceAddress> kOwn = {
    {"lo", "127.0.0.1"}, {"docker0", "172.17.0.1"}, {"eth0", "10.0.0.7"}, {"eth0", "fd00::7"}, {"ib0", "10.1.0.7"}};

std::string by(const std::string& rule) {
  const std::optional<InterfaceAddress> found = address_by_rule(kOwn, rule);
  return found ? found->address : "none";
}

TEST(Interfaces, ByRules) {
  EXPECT_EQ(by("eth"), "10.0.0.7");
  EXPECT_EQ(by("ib,eth"), "10.1.0.7");
  EXPECT_EQ(by("=eth"), "none");
  EXPECT_EQ(by("=ib0"), "10.1.0.7");
  EXPECT_EQ(by("^docker,lo"), "10.0.0.7");
  EXPECT_EQ(by("^=lo"), "172.17.0.1");
}

TEST(Interfaces, ForOthersAreNeitherLoopbackNorOfContainers) {
  EXPECT_EQ(address_for_others("", kOwn), "10.0.0.7");
  EXPECT_EQ(address_for_others("localhost", kOwn), "10.0.0.7");
  EXPECT_EQ(address_for_others("10.1.0.7", kOwn), "10.1.0.7");
  EXPECT_EQ(address_for_others("10.9.0.9", kOwn), "10.0.0.7");  // not of this host
  EXPECT_EQ(address_for_others("", {{"lo", "127.0.0.1"}, {"docker0", "172.17.0.1"}}), "172.17.0.1");
  EXPECT_EQ(address_for_others("", {{"lo", "127.0.0.1"}}), "127.0.0.1");
}

TEST(Interfaces, TheWayToThisHost) {
  EXPECT_EQ(address_towards({"127.0.0.1", 1}).value(), "127.0.0.1");
  EXPECT_FALSE(address_towards({"no.such.host.invalid", 1}));
}

}  // namespace
}  // namespace ronde::store
