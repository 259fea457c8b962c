#include "launch/addresses.h"

#include <gtest/gtest.h>

namespace ronde::launch {
namespace {

AgentHello host_at(const std::string& caller, const std::string& called) {
  AgentHello hello;
  hello.host = "h";
  hello.caller = caller;
  hello.called = called;
  hello.addresses = {{"lo", "127.0.0.1"},       {"eth0", "10.0.0.7"}, {"eth1", "10.1.0.7"}, {"ib0", "10.2.0.7"},
                     {"docker0", "172.17.0.1"}, {"lo", "::1"},        {"eth0", "fd00::7"}};
  return hello;
}

std::string chosen(const std::vector<AgentHello>& hellos, const std::string& interfaces = "") {
  const std::vector<std::string> names(hellos.size(), "n");
  const Result<std::vector<ChosenAddress>> addresses = choose_addresses(names, hellos, interfaces);
  if (!addresses) {
    return addresses.status().message();
  }
  std::string text;
  for (const ChosenAddress& each : addresses.value()) {
    text += (text.empty() ? "" : " ") + each.address;
  }
  return text;
}

TEST(Addresses, AreThoseThatSshWentBetween) {
  EXPECT_EQ(chosen({host_at("", ""), host_at("10.0.0.1", "10.0.0.2")}), "10.0.0.1 10.0.0.2");
  EXPECT_EQ(chosen({host_at("10.0.0.9", "10.0.0.1"), host_at("10.0.0.9", "10.0.0.2")}), "10.0.0.1 10.0.0.2");
  EXPECT_EQ(chosen({host_at("", ""), host_at("::ffff:10.0.0.1", "::ffff:10.0.0.2")}), "10.0.0.1 10.0.0.2");
  EXPECT_EQ(chosen({host_at("", ""), host_at("fd00::1", "fd00::2")}), "fd00::1 fd00::2");
}

TEST(Addresses, OfOneHostAloneIsItsLoopback) {
  EXPECT_EQ(chosen({host_at("", ""), host_at("", "")}), "127.0.0.1 127.0.0.1");
  EXPECT_EQ(chosen({host_at("127.0.0.1", "127.0.0.1"), host_at("", "")}), "127.0.0.1 127.0.0.1");
}

TEST(Addresses, WithoutSshTheNameTellsElseTheFirst) {
  AgentHello one = host_at("", "");
  AgentHello two = host_at("", "");
  two.host = "other";
  two.named = "10.1.0.8";
  EXPECT_EQ(chosen({one, two}), "10.0.0.7 10.1.0.8");
}

TEST(Addresses, LinkLocalOnesMeanNothingElsewhere) {
  EXPECT_EQ(chosen({host_at("10.0.0.9", "10.0.0.1"), host_at("fe80::9%eth0", "fe80::2%eth0")}), "10.0.0.1 10.0.0.7");
}

TEST(Addresses, ALoopbackIsNeverToldToAnotherHost) {
  EXPECT_NE(chosen({host_at("127.0.0.1", "127.0.0.1"), host_at("10.0.0.1", "10.0.0.2")})
                .find("host n would be reached at 127.0.0.1, which other hosts cannot reach"),
            std::string::npos);
}

TEST(Addresses, InterfacesAsNcclWritesThem) {
  const std::vector<AgentHello> one = {host_at("10.0.0.9", "10.0.0.1")};
  EXPECT_EQ(chosen(one, "eth"), "10.0.0.7");
  EXPECT_EQ(chosen(one, "=eth1"), "10.1.0.7");
  EXPECT_EQ(chosen(one, "ib,eth"), "10.2.0.7");
  EXPECT_EQ(chosen(one, "wlan,eth1"), "10.1.0.7");
  EXPECT_EQ(chosen(one, "^lo,eth0,docker"), "10.1.0.7");
  EXPECT_EQ(chosen(one, "^docker"), "10.0.0.7");
  EXPECT_EQ(chosen(one, "^=eth0"), "10.1.0.7");
  EXPECT_NE(chosen(one, "=eth").find("has no network interface for '=eth'; it has lo (127.0.0.1), eth0 (10.0.0.7)"),
            std::string::npos);
}

}  // namespace
}  // namespace ronde::launch
