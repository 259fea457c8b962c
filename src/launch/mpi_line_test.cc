#include "launch/mpi_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::launch {
namespace {

using testing::HasSubstr;

std::string line_of(const MpiLauncher& launcher, const MpiJob& job) {
  const Result<std::vector<std::string>> line = mpi_line(launcher, job);
  return line ? joined(line.value()) : line.status().message();
}

const MpiLauncher kOpenMpi4{.program = "mpirun", .kind = MpiKind::open_mpi, .major = 4};
const MpiLauncher kOpenMpi5{.program = "mpirun", .kind = MpiKind::open_mpi, .major = 5};
const MpiLauncher kMpich{.program = "mpiexec", .kind = MpiKind::mpich};
const MpiLauncher kIntel{.program = "mpiexec", .kind = MpiKind::intel};
const MpiLauncher kSrun{.program = "srun", .kind = MpiKind::srun};

TEST(MpiLine, OnThisHost) {
  const MpiJob job{.command = {"python", "train.py", "-x", "a b"}, .ranks = 4};
  EXPECT_EQ(line_of(kOpenMpi4, job),
            "mpirun -np 4 --map-by slot:OVERSUBSCRIBE --bind-to none --tag-output python train.py -x 'a b'");
  EXPECT_EQ(line_of(kOpenMpi5, job),
            "mpirun -np 4 --map-by slot:OVERSUBSCRIBE --bind-to none --output tag python train.py -x 'a b'");
  EXPECT_EQ(line_of(kMpich, job), "mpiexec -prepend-rank -n 4 python train.py -x 'a b'");
  EXPECT_EQ(line_of(kIntel, job), "mpiexec -genv I_MPI_PIN 0 -prepend-rank -n 4 python train.py -x 'a b'");
  EXPECT_EQ(line_of(kSrun, job),
            "srun --ntasks=4 --kill-on-bad-exit=1 --cpu-bind=none --label python train.py -x 'a b'");
}

TEST(MpiLine, OnSeveralHostsWithTheirEnvironment) {
  const MpiJob job{.command = {"./a.out"},
                   .ranks = 3,
                   .hosts = {{"node1", 2}, {"node2", 1}},
                   .prefix = false,
                   .folder = "/data",
                   .variables = {"PATH", "RONDE_BACKEND"}};
  EXPECT_EQ(
      line_of(kOpenMpi4, job),
      "mpirun -np 3 -H node1:2,node2:1 --map-by slot -x PATH -x RONDE_BACKEND --bind-to none -wdir /data ./a.out");
  EXPECT_EQ(line_of(kMpich, job),
            "mpiexec -hosts node1:2,node2:1 -genvlist PATH,RONDE_BACKEND -wdir /data -n 3 ./a.out");
  EXPECT_EQ(line_of(kSrun, job),
            "srun --ntasks=3 --kill-on-bad-exit=1 --nodes=2 --nodelist=node1,node2 --distribution=block "
            "--cpu-bind=none --chdir=/data ./a.out");
}

TEST(MpiLine, IntelsLauncherTakesAsManyRanksOnEachHost) {
  MpiJob job{.command = {"./a.out"}, .ranks = 4, .hosts = {{"node1", 2}, {"node2", 2}}, .variables = {"PATH"}};
  EXPECT_EQ(line_of(kIntel, job),
            "mpiexec -hosts node1,node2 -ppn 2 -genvlist PATH -genv I_MPI_PIN 0 -prepend-rank -n 4 ./a.out");
  job.hosts[1].slots = 1;
  EXPECT_THAT(line_of(kIntel, job), HasSubstr("takes as many ranks on each host, and node1:2,node2:1 has not"));
}

TEST(MpiLine, WhatIsAskedForBesides) {
  const MpiJob job{.command = {"./a.out"},
                   .ranks = 2,
                   .binding = Binding::core,
                   .prefix = false,
                   .is_root = true,
                   .options = {"--mca", "pml", "ob1"}};
  EXPECT_EQ(line_of(kOpenMpi4, job),
            "mpirun --allow-run-as-root -np 2 --map-by slot:OVERSUBSCRIBE --bind-to core --mca pml ob1 ./a.out");
  EXPECT_EQ(line_of(kMpich, job), "mpiexec -bind-to core -n 2 --mca pml ob1 ./a.out");
  EXPECT_EQ(line_of(kIntel, job), "mpiexec -genv I_MPI_PIN 1 -genv I_MPI_PIN_DOMAIN core -n 2 --mca pml ob1 ./a.out");
  EXPECT_EQ(line_of(kSrun, job), "srun --ntasks=2 --kill-on-bad-exit=1 --cpu-bind=cores --mca pml ob1 ./a.out");
}

TEST(MpiLine, HowToLogInAndFilesOfOutput) {
  MpiJob job{.command = {"./a.out"},
             .ranks = 2,
             .hosts = {{"node1", 1}, {"node2", 1}},
             .ssh = "ssh -p 7",
             .output_folder = "logs"};
  EXPECT_EQ(line_of(kOpenMpi4, job),
            "mpirun -np 2 -H node1:1,node2:1 --map-by slot --bind-to none --mca plm_rsh_agent 'ssh -p 7' --tag-output "
            "--output-filename logs ./a.out");
  EXPECT_EQ(line_of(kOpenMpi5, job),
            "mpirun -np 2 -H node1:1,node2:1 --map-by slot --bind-to none --prtemca plm_ssh_agent 'ssh -p 7' --output "
            "tag,dir=logs ./a.out");
  EXPECT_THAT(line_of(kMpich, job), HasSubstr("--output-dir: 'mpiexec' has no option"));
  job.output_folder.clear();
  EXPECT_THAT(line_of(kIntel, job), HasSubstr("--ssh, or RONDE_SSH: 'mpiexec' takes a program without words"));
  EXPECT_THAT(line_of(kSrun, job), HasSubstr("srun --ntasks=2 ")) << "which needs none";
  job.hosts.clear();
  EXPECT_EQ(line_of(kMpich, job), "mpiexec -prepend-rank -n 2 ./a.out");
}

TEST(MpiLauncher, IsKnownByWhatItSays) {
  const auto kind = [](const char* program, const char* said) { return mpi_launcher_of(program, said).value().kind; };
  EXPECT_EQ(kind("mpirun", "mpirun (Open MPI) 5.0.8\n\nReport bugs to"), MpiKind::open_mpi);
  EXPECT_EQ(kind("/opt/bin/mpirun", "mpirun.openmpi (OpenRTE) 4.1.4\n"), MpiKind::open_mpi);
  EXPECT_EQ(kind("mpiexec", "HYDRA build details:\n    Version:       4.0.2\n"), MpiKind::mpich);
  EXPECT_EQ(kind("mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.17 Build 20251009"), MpiKind::intel);
  EXPECT_EQ(kind("/usr/bin/srun", "slurm-wlm 22.05.8\n"), MpiKind::srun);
  EXPECT_EQ(mpi_launcher_of("mpirun", "mpirun (Open MPI) 5.0.8\n").value().major, 5);
  EXPECT_EQ(mpi_launcher_of("mpirun", "mpirun.openmpi (OpenRTE) 4.1.4\n").value().version,
            "mpirun.openmpi (OpenRTE) 4.1.4");
  const Result<MpiLauncher> other = mpi_launcher_of("jsrun", "jsrun 10\nmore");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.status().code(), Code::not_implemented);
  EXPECT_THAT(other.status().message(), HasSubstr("'jsrun' is none of them: it answers --version with 'jsrun 10'"));
}

TEST(SplitWords, AsAShellTakesThem) {
  const auto words = [](const char* text) { return split_words(text).value(); };
  EXPECT_EQ(words(""), std::vector<std::string>());
  EXPECT_EQ(words("  -x A   -x B "), std::vector<std::string>({"-x", "A", "-x", "B"}));
  EXPECT_EQ(words("-x 'a b' \"c'd\" e\\ f ''"), std::vector<std::string>({"-x", "a b", "c'd", "e f", ""}));
  EXPECT_EQ(words("--mca=a\"b c\"d"), std::vector<std::string>({"--mca=ab cd"}));
  EXPECT_FALSE(split_words("-x 'a"));
}

}  // namespace
}  // namespace ronde::launch
