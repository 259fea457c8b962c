#include "doctor/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "doctor/pair_checks.h"

namespace ronde::doctor {
namespace {

using testing::HasSubstr;

HostReport host(const std::string& name, const std::string& python, std::vector<Package> packages) {
  return {name, {{Grade::ok, "system", "Linux", ""}}, python, std::move(packages), "x86-64-v3"};
}

TEST(Finding, ReportsTravelWhole) {
  HostReport report = host("rh1", "3.11.7", {{"torch", "2.13.0"}});
  report.findings.push_back({Grade::warning, "clock", "off \xff", "set it"});
  const Result<HostReport> read = decode_host(encode(report));
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read.value().packages, report.packages);
  EXPECT_EQ(read.value().findings[1].grade, Grade::warning);
  EXPECT_EQ(read.value().findings[1].advice, "set it");
  const Result<std::vector<PairReport>> pairs = decode_pairs(encode({{0, 2, {Grade::failure, "", "t", "a"}}}));
  ASSERT_TRUE(pairs) << pairs.status().message();
  EXPECT_EQ(pairs.value()[0].to, 2);
  EXPECT_FALSE(decode_host("{}"));
  EXPECT_FALSE(decode_pairs("nonsense"));
}

TEST(Finding, VersionsThatDifferAreNamedWithTheirHosts) {
  const std::vector<Finding> found =
      compare({host("a", "3.11.7", {{"torch", "2.13.0"}, {"jax", "0.5"}}), host("b", "3.12.1", {{"torch", "2.13.0"}})});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].subject, "Python");
  EXPECT_EQ(found[0].text, "3.11.7 (a), 3.12.1 (b)");
  EXPECT_EQ(found[1].subject, "jax");
  EXPECT_EQ(found[1].text, "0.5 (a), none (b)");
  EXPECT_TRUE(compare({host("a", "3.11.7", {}), host("b", "3.11.7", {})}).empty());
}

TEST(Finding, PeopleAndProgramsReadTheSame) {
  const std::vector<HostReport> hosts = {host("a", "3.11.7", {}), host("b", "3.11.7", {})};
  const std::vector<PairReport> pairs = {{0, 1, {Grade::failure, "", "no connection to b", "a firewall"}}};
  const std::string text = as_text(hosts, pairs, {});
  EXPECT_THAT(text, HasSubstr("between hosts\n  failure  a - b  no connection to b\n"));
  EXPECT_THAT(text, HasSubstr("-> a firewall\n1 failure, 0 warnings, 0 notices\n"));
  const nlohmann::json json = nlohmann::json::parse(as_json(hosts, pairs, {}));
  EXPECT_EQ(json["worst"], "failure");
  EXPECT_EQ(json["pairs"][0]["advice"], "a firewall");
  EXPECT_EQ(json["hosts"].size(), 2U);
}

TEST(Finding, FiguresOfAPairAreJudged) {
  const PairFigures good{20 * kMicrosecond, 3e9, 2.5e9, 100 * kMicrosecond, 10 * kMicrosecond};
  EXPECT_EQ(judge(good).grade, Grade::ok);
  EXPECT_EQ(judge(good).text, "20 us one way, 3.00 GB/s there, 2.50 back, clocks 0.100 ms apart");
  PairFigures late = good;
  late.clocks_apart = -5 * kSecond;
  EXPECT_THAT(judge(late).advice, HasSubstr("set the clocks"));
  PairFigures slow = good;
  slow.back = 1e5;
  EXPECT_EQ(judge(slow).grade, Grade::warning);
}

}  // namespace
}  // namespace ronde::doctor
