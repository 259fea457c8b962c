#include "launch/host_list.h"

#include <gtest/gtest.h>

namespace ronde::launch {
namespace {

using Hosts = std::vector<HostSlots>;

std::string text_of(const Result<Hosts>& hosts) {
  if (!hosts) {
    return hosts.status().message();
  }
  std::string text;
  for (const HostSlots& host : hosts.value()) {
    text += (text.empty() ? "" : " ") + host.name + "*" + std::to_string(host.slots);
  }
  return text;
}

std::string of_file(const std::string& contents) { return text_of(parse_host_file(contents, "f")); }

TEST(HostList, TakesWhatPeopleWrite) {
  EXPECT_EQ(text_of(parse_hosts("a:4,b:2")), "a*4 b*2");
  EXPECT_EQ(text_of(parse_hosts("a,b")), "a*1 b*1");
  EXPECT_EQ(text_of(parse_hosts(" a:1 , b:2 ")), "a*1 b*2");
  EXPECT_EQ(text_of(parse_hosts("a:1,b:1,a:3")), "a*4 b*1");
  EXPECT_EQ(text_of(parse_hosts("me@node-1.cluster.org:8")), "me@node-1.cluster.org*8");
  EXPECT_EQ(text_of(parse_hosts("10.0.0.1:2,10.0.0.2")), "10.0.0.1*2 10.0.0.2*1");
  EXPECT_EQ(text_of(parse_hosts("[fd00::1]:4,fd00::2")), "fd00::1*4 fd00::2*1");
  EXPECT_EQ(text_of(parse_hosts("node[1-3]:2")), "node1*2 node2*2 node3*2");
  EXPECT_EQ(text_of(parse_hosts("n[08-10,12].x:1,z")), "n08.x*1 n09.x*1 n10.x*1 n12.x*1 z*1");
  EXPECT_EQ(text_of(parse_hosts("r[1-2]n[1-2]:3")), "r1n1*3 r1n2*3 r2n1*3 r2n2*3");
}

TEST(HostList, SaysWhatIsWrong) {
  EXPECT_NE(text_of(parse_hosts("a:0")).find("'0' is no number of ranks"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("a:x")).find("'x' is no number of ranks"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("a:-1")).find("'-1' is no number of ranks"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("a,,b")).find("'' is no name of a host"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("")).find("'' is no name of a host"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("-oProxyCommand=x:2")).find("is no name of a host"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("a;b:2")).find("is no name of a host"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("n[1-3:2")).find("lacks a ']'"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("n[3-1]")).find("no range of host numbers"), std::string::npos);
  EXPECT_NE(text_of(parse_hosts("n[1-99999999]")).find("no range of host numbers"), std::string::npos);
}

TEST(HostList, ReadsTheFilesOfOtherLaunchers) {
  EXPECT_EQ(of_file("a slots=4\nb slots=2 max_slots=8  # the old one\n\n# c\n"), "a*4 b*2");
  EXPECT_EQ(of_file("a max_slots=4\n"), "a*1");
  EXPECT_EQ(of_file("a:4\nb:2\n"), "a*4 b*2");
  EXPECT_EQ(of_file("a\na\nb\na\r\n"), "a*3 b*1");
  EXPECT_EQ(of_file("n[1-2]:4"), "n1*4 n2*4");
  EXPECT_EQ(of_file(R"({"b": 4, "a": 2})"), "b*4 a*2");
  EXPECT_EQ(of_file(R"([{"host": "b", "slots": 4}, {"host": "a"}])"), "b*4 a*1");
  EXPECT_EQ(of_file("\n # nothing\n"), "f: names no host; expected lines such as `node1 slots=4` or `node1:4`");
  EXPECT_NE(of_file("a\nb 4\n").find("f, line 2: '4' is not understood"), std::string::npos);
  EXPECT_NE(of_file("a slots=none").find("f, line 1: 'none' is no number"), std::string::npos);
  EXPECT_NE(of_file(R"({"a": -1})").find("expected JSON"), std::string::npos);
  EXPECT_NE(of_file(R"({"a": 1)").find("expected JSON"), std::string::npos);
  EXPECT_NE(of_file(R"([{"slots": 1}])").find("expected JSON"), std::string::npos);
  EXPECT_NE(text_of(read_host_file("/nowhere/hosts")).find("'/nowhere/hosts': cannot be read"), std::string::npos);
}

TEST(HostList, GivesTheFirstHostsTheRanks) {
  const Hosts hosts = {{"a", 2}, {"b", 2}, {"c", 1}};
  EXPECT_EQ(text_of(fill_hosts(hosts, 0)), "a*2 b*2 c*1");
  EXPECT_EQ(text_of(fill_hosts(hosts, 3)), "a*2 b*1");
  EXPECT_EQ(text_of(fill_hosts(hosts, 1)), "a*1");
  EXPECT_EQ(text_of(fill_hosts(hosts, 5)), "a*2 b*2 c*1");
  EXPECT_NE(text_of(fill_hosts(hosts, 6)).find("6 ranks are more than the hosts' 5 slots"), std::string::npos);
}

TEST(HostList, ExpandsWhatSlurmWrites) {
  EXPECT_EQ(expand_host_names("rh[1-2],login").value(), (std::vector<std::string>{"rh1", "rh2", "login"}));
}

}  // namespace
}  // namespace ronde::launch
