#include "plan/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace ronde::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Fabric, PresetsAreWholeAndHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const FabricPreset& each : fabric_presets()) {
    EXPECT_TRUE(check(each.fabric)) << each.fabric.name;
    EXPECT_TRUE(names.insert(each.fabric.name).second) << each.fabric.name;
    EXPECT_STRNE(each.source, "") << each.fabric.name;
  }
}

TEST(Fabric, TcpCarriesAsMuchAsPacketsOf1500BytesDo) {
  Result<Fabric> fabric = find_fabric("tcp-10g");
  ASSERT_TRUE(fabric);
  EXPECT_NEAR(fabric->link_gbit, 9.415, 0.001);
  EXPECT_TRUE(fabric->has_transport);
  EXPECT_DOUBLE_EQ(fabric->latency_us + 2 * fabric->overhead_us, 20);
}

TEST(Fabric, RdmaHasTheLatencyThatWasMeasuredAndNoTransport) {
  Result<Fabric> fabric = find_fabric("aries");
  ASSERT_TRUE(fabric);
  EXPECT_DOUBLE_EQ(fabric->latency_us + 2 * fabric->overhead_us, 1.2);
  EXPECT_DOUBLE_EQ(fabric->link_gbit, 8 * 9.6);
  EXPECT_FALSE(fabric->has_transport);
}

TEST(Fabric, AFileChangesAPreset) {
  Result<Fabric> fabric = parse_fabric(R"({"like": "rdma-100g", "name": "ours", "latency_us": 3})", "f.json");
  ASSERT_TRUE(fabric) << fabric.status().message();
  Fabric expected = find_fabric("rdma-100g").value();
  expected.name = "ours";
  expected.latency_us = 3;
  EXPECT_EQ(*fabric, expected);
}

TEST(Fabric, WhatAFileHasWrongIsNamed) {
  const auto said = [](const char* text) { return parse_fabric(text, "f.json").status().message(); };
  EXPECT_THAT(said("[]"), HasSubstr("'f.json' is no fabric: expected a JSON object"));
  EXPECT_THAT(said("{"), HasSubstr("'f.json' is no fabric"));
  EXPECT_THAT(said(R"({"like": "token-ring"})"), HasSubstr(R"("like" is "token-ring"; expected one of tcp-1g,)"));
  EXPECT_THAT(said(R"({"like": 3})"), HasSubstr("\"like\" is 3"));
  EXPECT_THAT(said(R"({"lag": 3})"), AllOf(HasSubstr("no \"lag\""), HasSubstr("latency_us, ")));
  EXPECT_THAT(said(R"({"latency_us": "3"})"), HasSubstr("\"latency_us\" is \"3\"; expected a number"));
  EXPECT_THAT(said(R"({"latency_us": -1})"), HasSubstr("'f.json': latency_us must be"));
  EXPECT_THAT(said(R"({"link_gbit": 0})"), HasSubstr("a link must carry something"));
}

TEST(Fabric, OneParameterIsSet) {
  Fabric fabric = find_fabric("tcp-10g").value();
  EXPECT_TRUE(set_parameter(fabric, "latency_us=2.5e1"));
  EXPECT_DOUBLE_EQ(fabric.latency_us, 25);
  EXPECT_THAT(set_parameter(fabric, "latency=3").message(), HasSubstr("expected NAME=NUMBER"));
  EXPECT_THAT(set_parameter(fabric, "latency_us").message(), HasSubstr("expected NAME=NUMBER"));
  EXPECT_THAT(set_parameter(fabric, "latency_us=fast").message(), HasSubstr("latency_us is 'fast'"));
  EXPECT_THAT(set_parameter(fabric, "latency_us=nan").message(), HasSubstr("must be a number"));
}

TEST(Fabric, AnUnknownNameIsTakenForAFile) {
  EXPECT_THAT(find_fabric("token-ring").status().message(),
              AllOf(HasSubstr("'token-ring' is neither"), HasSubstr("slingshot-11")));
}

}  // namespace
}  // namespace ronde::plan
