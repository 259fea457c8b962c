#include "base/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde {
namespace {

using testing::ElementsAre;

TEST(CgroupFolders, EveryGroupUpToTheMountPointCounts) {
  EXPECT_THAT(
      cgroup_folders("cpu", "0::/user.slice/job\n", "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"),
      ElementsAre(CgroupFolder{2, "/sys/fs/cgroup/user.slice/job"}, CgroupFolder{2, "/sys/fs/cgroup/user.slice"},
                  CgroupFolder{2, "/sys/fs/cgroup"}));
  EXPECT_THAT(
      cgroup_folders("cpu", "5:cpuset:/x\n4:cpu,cpuacct:/job\n0::/\n",
                     "36 25 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                     "37 25 0:33 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"),
      ElementsAre(CgroupFolder{1, "/sys/fs/cgroup/cpu,cpuacct/job"}, CgroupFolder{1, "/sys/fs/cgroup/cpu,cpuacct"}));
}

TEST(CgroupFolders, InAContainerThePathIsTheHostsAndTheMountShowsOnlyItsPart) {
  const char* const mounts = "36 25 0:32 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
  EXPECT_THAT(cgroup_folders("cpu", "4:cpu:/docker/abc\n", mounts), ElementsAre(CgroupFolder{1, "/sys/fs/cgroup/cpu"}));
  EXPECT_THAT(cgroup_folders("cpu", "4:cpu:/docker/abc/in\n", mounts),
              ElementsAre(CgroupFolder{1, "/sys/fs/cgroup/cpu/in"}, CgroupFolder{1, "/sys/fs/cgroup/cpu"}));
  EXPECT_THAT(cgroup_folders("cpu", "4:cpu:/../other\n", mounts), ElementsAre(CgroupFolder{1, "/sys/fs/cgroup/cpu"}));
}

TEST(CgroupFolders, StrangeFilesMeanNoLimit) {
  EXPECT_THAT(cgroup_folders("cpu", "", ""), ElementsAre());
  EXPECT_THAT(cgroup_folders("cpu", "nonsense\n0::/x\n", "too short - cgroup2\n"), ElementsAre());
}

TEST(CgroupFolders, AControllerOfVersionOneHasAMountOfItsOwn) {
  EXPECT_THAT(cgroup_folders("memory", "4:cpu:/a\n3:memory:/b\n",
                             "36 25 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                             "37 25 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
              ElementsAre(CgroupFolder{1, "/sys/fs/cgroup/memory/b"}, CgroupFolder{1, "/sys/fs/cgroup/memory"}));
}

}  // namespace
}  // namespace ronde
