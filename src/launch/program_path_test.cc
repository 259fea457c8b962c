#include "launch/program_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ronde::launch {
namespace {

/// A folder with the program "can" and the file "cannot", which nobody may execute.
class ProgramPath : public testing::Test {
 protected:
  ProgramPath() {
    std::filesystem::create_directories(folder_ / "a folder");
    for (const char* name : {"can", "cannot"}) {
      std::ofstream(folder_ / name) << "#!/bin/sh\n";
    }
    EXPECT_EQ(::chmod((folder_ / "can").c_str(), 0700), 0);
    EXPECT_EQ(::chmod((folder_ / "cannot").c_str(), 0600), 0);
  }
  ~ProgramPath() override { std::filesystem::remove_all(folder_); }

  std::string at(const char* name) const { return (folder_ / name).string(); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("ronde_program_path_" + std::to_string(::getpid()));
};

TEST_F(ProgramPath, OfAVariableTheLastValueCounts) {
  EXPECT_EQ(variable_of({"A=1", "AB=2", "A=3=4", "B="}, "A"), "3=4");
  EXPECT_EQ(variable_of({"A=1"}, "B"), "");
}

TEST_F(ProgramPath, APathLeadsToAFileThatMayBeExecuted) {
  EXPECT_FALSE(check_program(at("can"), {}));
  EXPECT_EQ(check_program(at("cannot"), {})->exit_code, kNotRunnableExit);
  EXPECT_EQ(check_program(at("a folder"), {})->exit_code, kNotRunnableExit);
  EXPECT_EQ(check_program(at("missing"), {})->exit_code, kNotFoundExit);
}

TEST_F(ProgramPath, ANameIsLookedForInThePathOfTheEnvironment) {
  const std::string path = "PATH=/nowhere:" + folder_.string();
  EXPECT_FALSE(check_program("can", {path}));
  EXPECT_TRUE(check_program("cannot", {path}));
  EXPECT_TRUE(check_program("can", {path, "PATH=/nowhere"}));
  EXPECT_TRUE(check_program("can", {}));
}

}  // namespace
}  // namespace ronde::launch
