#include "launch/hosts_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::launch {
namespace {

/// rank:local rank:cross rank/cross size, host by host.
std::string places_by(Mapping mapping) {
  const auto places = place_ranks({{"a", 2}, {"b", 1}, {"c", 3}}, mapping);
  std::string text;
  for (const auto& host : places) {
    for (const PlannedRank& each : host) {
      text += std::to_string(each.rank) + ":" + std::to_string(each.local_rank) + ":" +
              std::to_string(each.cross_rank) + "/" + std::to_string(each.cross_size) + " ";
    }
    text += "| ";
  }
  return text;
}

TEST(HostsJob, RanksAreNumberedHostByHost) {
  EXPECT_EQ(places_by(Mapping::slot), "0:0:0/3 1:1:0/2 | 2:0:1/3 | 3:0:2/3 4:1:1/2 5:2:0/1 | ");
}

TEST(HostsJob, OrInTurn) {
  EXPECT_EQ(places_by(Mapping::node), "0:0:0/3 3:1:0/2 | 1:0:1/3 | 2:0:2/3 4:1:1/2 5:2:0/1 | ");
}

TEST(HostsJob, WhatBelongsToAHostStaysThere) {
  EXPECT_THAT(portable_environment({"PATH=/opt/bin", "HOME=/root", "SSH_CONNECTION=x", "XDG_RUNTIME_DIR=/run/user/0",
                                    "SLURM_PROCID=0", "SLURM_JOB_ID=7", "OMP_NUM_THREADS=2", "TMPDIR=/scratch/7",
                                    "BASH_FUNC_module%%=() { :; }", "PMI_RANK=0", "PWD=/x", "PWDS=1"}),
              testing::ElementsAre("PATH=/opt/bin", "SLURM_JOB_ID=7", "OMP_NUM_THREADS=2", "PWDS=1"));
}

TEST(HostsJob, APlanTravelsByteForByte) {
  AgentPlan plan;
  plan.command = {"/bin/sh", "-c", "echo \"\xff\xfe \n\t' é\""};
  plan.folder = "/data/\xe9t\xe9";
  plan.environment = {"A=\x01\x80", "B="};
  plan.key = "k";
  plan.size = 3;
  plan.binding = Binding::numa;
  plan.ranks = {{1, 0, 1, 2}, {2, 1, 0, 1}};
  plan.master_port = 4711;
  const Result<AgentPlan> read = AgentPlan::decode(plan.encode());
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read.value().command, plan.command);
  EXPECT_EQ(read.value().binding, Binding::numa);
  EXPECT_EQ(read.value().folder, plan.folder);
  EXPECT_EQ(read.value().environment, plan.environment);
  EXPECT_EQ(read.value().ranks[1].cross_size, 1);
  EXPECT_EQ(read.value().master_port, 4711);
}

TEST(HostsJob, APlanThatMakesNoSenseIsAnError) {
  for (const char* const text : {"", "{}", "[1]", "{\"command\": 3}", "nonsense"}) {
    EXPECT_FALSE(AgentPlan::decode(text)) << text;
    EXPECT_FALSE(AgentHello::decode(text)) << text;
  }
}

}  // namespace
}  // namespace ronde::launch
