#include "engine/process/other_launchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ronde::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;
using testing::StartsWith;

/// No launcher's variables but those that a test sets; afterwards all is as it was.
class OtherLaunchers : public testing::Test {
 protected:
  OtherLaunchers() {
    for (const char* name : {"RONDE_SIZE", "HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                             "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"}) {
      if (const char* value = std::getenv(name)) {
        before_[name] = value;
      }
      ::unsetenv(name);
      names_.push_back(name);
    }
  }
  ~OtherLaunchers() override {
    for (const std::string& name : names_) {
      ::unsetenv(name.c_str());
    }
    for (const auto& [name, value] : before_) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::string> before_;
};

TEST_F(OtherLaunchers, NoneHasStartedAProcessAlone) {
  EXPECT_EQ(why_not_alone(), std::nullopt);
  ::setenv("WORLD_SIZE", "1", 1);
  EXPECT_EQ(why_not_alone(), std::nullopt) << "torchrun has started one process";
  ::setenv("SLURM_NTASKS", "8", 1);
  EXPECT_EQ(why_not_alone(), std::nullopt) << "the shell of an allocation has it too";
  ::setenv("PMI_SIZE", "many", 1);
  EXPECT_EQ(why_not_alone(), std::nullopt) << "says nothing";
}

TEST_F(OtherLaunchers, WhatItHasStartedIsNamedWithTheWayToStartIt) {
  for (const auto& [name, launcher] : std::map<const char*, const char*>{{"HOROVOD_SIZE", "horovodrun"},
                                                                         {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
                                                                         {"PMI_SIZE", "mpirun"},
                                                                         {"MV2_COMM_WORLD_SIZE", "MVAPICH's mpirun"},
                                                                         {"SLURM_STEP_NUM_TASKS", "Slurm's srun"},
                                                                         {"WORLD_SIZE", "torchrun"}}) {
    ::setenv(name, "4", 1);
    EXPECT_THAT(why_not_alone(), Optional(AllOf(StartsWith(std::string(name) + " is 4"), HasSubstr(launcher),
                                                HasSubstr("ronde run -n 4 -- "))));
    ::unsetenv(name);
  }
}

TEST_F(OtherLaunchers, AJobOfRondeIsNoneOfTheirs) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  ::setenv("RONDE_SIZE", "1", 1);
  EXPECT_EQ(why_not_alone(), std::nullopt);
}

}  // namespace
}  // namespace ronde::engine
