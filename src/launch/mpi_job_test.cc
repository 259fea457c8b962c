#include "launch/mpi_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace ronde::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A PATH of one folder, with programs that answer whatever they are asked.
class MpiJobTest : public testing::Test {
 protected:
  MpiJobTest() {
    folder_ = testing::TempDir() + "mpi-XXXXXX";
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    path_before_ = ::getenv("PATH");
    ::setenv("PATH", folder_.c_str(), 1);
  }
  ~MpiJobTest() override {
    ::setenv("PATH", path_before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void add(const std::string& name, const std::string& answer) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\necho '" << answer << "'\n";
    ::chmod(path.c_str(), 0755);
  }
  std::vector<std::string> environment(std::vector<std::string> more = {}) const {
    more.push_back("PATH=" + folder_);
    return more;
  }

  std::string folder_;

 private:
  std::string path_before_;
};

TEST_F(MpiJobTest, TheFirstOfPathThatIsKnownIsTaken) {
  EXPECT_THAT(find_mpi_launcher("", true, environment()).status().message(),
              HasSubstr("no launcher of an MPI is in PATH (mpirun, mpiexec): load the site's MPI, or say"));
  add("mpiexec.hydra", "HYDRA build details: Version: 4.0.2");
  EXPECT_EQ(find_mpi_launcher("", true, environment()).value().program, "mpiexec.hydra");
  add("mpiexec", "mpiexec (Open MPI) 4.1.4");
  EXPECT_EQ(find_mpi_launcher("", true, environment()).value().program, "mpiexec");
  add("mpirun", "somebody else");
  EXPECT_EQ(find_mpi_launcher("", true, environment()).value().program, "mpiexec");
  add("srun", "slurm 22.05");
  EXPECT_EQ(find_mpi_launcher("", false, environment()).value().program, "mpiexec");
  EXPECT_EQ(find_mpi_launcher("", true, environment()).value().kind, MpiKind::srun);
}

TEST_F(MpiJobTest, TheOneThatIsNamedIsTaken) {
  add("mpirun", "mpirun (Open MPI) 5.0.8");
  add("mine", "HYDRA build details: Version: 4.0.2");
  EXPECT_EQ(find_mpi_launcher("mine", true, environment()).value().kind, MpiKind::mpich);
  EXPECT_EQ(find_mpi_launcher(folder_ + "/mpirun", true, environment()).value().major, 5);
  EXPECT_THAT(find_mpi_launcher("none", true, environment()).status().message(),
              HasSubstr("command not found: 'none'"));
}

TEST_F(MpiJobTest, SrunIsToldHowRanksConnectWhereNobodySays) {
  add("srun", "MPI plugin types are... none pmi2 pmix pmix_v4");
  EXPECT_THAT(srun_connection({}, environment()), IsEmpty()) << "the site's setting is not known";
  add("scontrol", "MpiDefault              = pmi2\nMore = none");
  EXPECT_THAT(srun_connection({}, environment()), IsEmpty()) << "the site says it";
  add("scontrol", "MpiDefault              = none\nMore = 1");
  EXPECT_THAT(srun_connection({}, environment()), ElementsAre("--mpi=pmix"));
  EXPECT_THAT(srun_connection({"--mpi=pmi2"}, environment()), IsEmpty());
  EXPECT_THAT(srun_connection({"--mpi", "pmi2"}, environment()), IsEmpty());
  EXPECT_THAT(srun_connection({}, environment({"SLURM_MPI_TYPE=pmi2"})), IsEmpty());
  add("srun", "MPI plugin types are... none pmi2");
  EXPECT_THAT(srun_connection({}, environment()), ElementsAre("--mpi=pmi2"));
  add("srun", "MPI plugin types are... none");
  EXPECT_THAT(srun_connection({}, environment()), IsEmpty());
}

TEST_F(MpiJobTest, RanksOfOtherHostsGetWhatIsNotThisHostsOwn) {
  ::setenv("RONDE_TEST_CARRIED", "1", 1);
  const std::vector<std::string> names = carried_names({"RONDE_BACKEND=mpi", "A=1"});
  ::unsetenv("RONDE_TEST_CARRIED");
  EXPECT_THAT(names, Contains("RONDE_TEST_CARRIED"));
  EXPECT_THAT(names, Contains("RONDE_BACKEND").Times(1));
  EXPECT_THAT(names, Contains("A"));
  EXPECT_THAT(names, Contains("PATH"));
  EXPECT_THAT(names, Not(Contains("HOME")));
}

}  // namespace
}  // namespace ronde::launch
