#include "launch/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

namespace ronde::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<std::optional<Allocation>> allocation_of(const std::map<std::string, std::string>& variables) {
  return launch::allocation_of([&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

std::vector<HostSlots> hosts_of(const std::map<std::string, std::string>& variables) {
  const auto allocation = allocation_of(variables);
  EXPECT_TRUE(allocation && allocation.value()) << allocation.status().message();
  return allocation && allocation.value() ? allocation.value()->hosts : std::vector<HostSlots>();
}

class FileOf {
 public:
  explicit FileOf(const std::string& contents)
      : path(testing::TempDir() + "/allocation_test.hosts." + std::to_string(::getpid())) {
    std::ofstream(path) << contents;
  }
  ~FileOf() { std::remove(path.c_str()); }
  const std::string path;
};

TEST(Allocation, SlurmCountsTasksByHost) {
  EXPECT_THAT(hosts_of({{"SLURM_JOB_NODELIST", "node[01-02,7]"}, {"SLURM_TASKS_PER_NODE", "4(x2),1"}}),
              ElementsAre(HostSlots{"node01", 4}, HostSlots{"node02", 4}, HostSlots{"node7", 1}));
  EXPECT_THAT(hosts_of({{"SLURM_JOB_NODELIST", "a"}}), ElementsAre(HostSlots{"a", 1}));
  const auto named = allocation_of({{"SLURM_JOB_NODELIST", "a"}, {"SLURM_JOB_ID", "12"}});
  EXPECT_EQ(named.value()->system, "Slurm");
  EXPECT_EQ(named.value()->number, "12");
}

TEST(Allocation, CountsThatDoNotFitTheHostsAreRefused) {
  const auto wrong = allocation_of({{"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_TASKS_PER_NODE", "2(x3)"}});
  EXPECT_EQ(wrong.status().code(), Code::invalid_argument);
  EXPECT_THAT(wrong.status().message(), HasSubstr("say where to run with -H"));
  for (const char* text : {"", "x", "2(x", "2(x0)", "0", "2,,1", "2(x3)(x2)", "-1"}) {
    EXPECT_FALSE(expand_counts(text)) << text;
  }
}

TEST(Allocation, ATaskOfSrunAndARankHaveNoneOfTheirOwn) {
  const std::map<std::string, std::string> job = {{"SLURM_JOB_NODELIST", "a,b"}};
  const auto with = [&](const char* name, const char* value) {
    auto variables = job;
    variables[name] = value;
    return allocation_of(variables).value().has_value();
  };
  EXPECT_FALSE(with("SLURM_STEP_ID", "0"));
  EXPECT_FALSE(with("RONDE_RANK", "1"));
  EXPECT_TRUE(with("SLURM_STEP_ID", "4294967290")) << "an interactive shell";
  EXPECT_TRUE(with("SLURM_PROCID", "0")) << "a batch script";
  EXPECT_FALSE(allocation_of({}).value().has_value());
}

TEST(Allocation, PbsAndLsfWriteHostFiles) {
  const FileOf file("node1\nnode1\nnode2\n");
  for (const char* name : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"}) {
    EXPECT_THAT(hosts_of({{name, file.path}}), ElementsAre(HostSlots{"node1", 2}, HostSlots{"node2", 1}));
  }
  EXPECT_THAT(hosts_of({{"LSB_MCPU_HOSTS", "node1 4 node2 3"}}),
              ElementsAre(HostSlots{"node1", 4}, HostSlots{"node2", 3}));
  EXPECT_FALSE(allocation_of({{"PBS_NODEFILE", file.path + ".gone"}}));
}

}  // namespace
}  // namespace ronde::launch
