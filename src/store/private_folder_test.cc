#include "store/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "store/folder_owner.h"
namespace ronde::store {
namespace {

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

TEST(PrivateFolder, IsForThisUserOnlyAndGoesWithItsOwner) {
  std::string path;
  {
    Result<PrivateFolder> folder = PrivateFolder::create();
    ASSERT_TRUE(folder) << folder.status().message();
    path = folder->path();
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    EXPECT_EQ(info.st_uid, ::geteuid());
    std::ofstream(path + "/store") << "a file";
    const PrivateFolder moved = std::move(folder).value();
    EXPECT_EQ(moved.path(), path);
    const pid_t child = ::fork();
    if (child == 0) {
      { const PrivateFolder inherited(std::move(const_cast<PrivateFolder&>(moved))); }
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(exists(path + "/store")) << "a forked child must not remove its parent's folder";
  }
  EXPECT_FALSE(exists(path));
  remove_private_folder(path);  // gone already: no failure
}

TEST(PrivateFolder, TriesTheRuntimeFolderThenTheTemporaryOnes) {
  EXPECT_THAT(folder_candidates("/run/user/7", "/scratch//"), testing::ElementsAre("/run/user/7", "/scratch", "/tmp"));
  EXPECT_THAT(folder_candidates(nullptr, "not/absolute"), testing::ElementsAre("/tmp"));
  EXPECT_THAT(folder_candidates("", nullptr), testing::ElementsAre("/tmp"));
}

TEST(PrivateFolder, PassesOverParentsThatTakeNone) {
  const std::string before = ::getenv("XDG_RUNTIME_DIR") == nullptr ? "" : ::getenv("XDG_RUNTIME_DIR");
  ::setenv("XDG_RUNTIME_DIR", "/proc/nothing/here", 1);
  EXPECT_TRUE(PrivateFolder::create());
  ::setenv("XDG_RUNTIME_DIR", ("/tmp/" + std::string(100, 'x')).c_str(), 1);
  EXPECT_TRUE(PrivateFolder::create());
  before.empty() ? ::unsetenv("XDG_RUNTIME_DIR") : ::setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
}

}  // namespace
}  // namespace ronde::store
