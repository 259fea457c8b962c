#include "store/folder_owner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace ronde::store {
namespace {

class FolderOwner : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(parent_.data()), nullptr);
    ASSERT_EQ(::mkdir(folder().c_str(), 0700), 0);
  }
  void TearDown() override {
    for (const char* name : {"owner", "owner.new", "store"}) {
      ::unlink((folder() + "/" + name).c_str());
    }
    ::rmdir(folder().c_str());
    EXPECT_EQ(::rmdir(parent_.c_str()), 0);
  }

  std::string folder() const { return parent_ + "/ronde-abcdef"; }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder() + "/" + name) << text; }
  bool is_swept() const {
    remove_abandoned_folders(parent_);
    return ::access(folder().c_str(), F_OK) != 0;
  }

  std::string parent_ = testing::TempDir() + "ronde-owner-XXXXXX";
};

TEST_F(FolderOwner, AParentMayHandDownItsSetgidBit) {
  ASSERT_EQ(::chmod(folder().c_str(), 02700), 0);
  { const UniqueFd claim = claim_folder(folder()); }
  EXPECT_TRUE(is_swept());
}

TEST_F(FolderOwner, WhatIsOwnedStaysAndWhatWasLeftGoes) {
  {
    const UniqueFd claim = claim_folder(folder());
    ASSERT_TRUE(claim.is_open());
    write("store", "a file");
    EXPECT_FALSE(is_swept()) << "by its own process";
    const pid_t other = ::fork();
    if (other == 0) {
      ::_exit(is_swept() ? 1 : 0);
    }
    int status = -1;
    ::waitpid(other, &status, 0);
    EXPECT_EQ(status, 0) << "by another process";
    EXPECT_FALSE(is_swept()) << "those who have looked have not unlocked it";
  }
  EXPECT_TRUE(is_swept());
}

TEST_F(FolderOwner, WhatAKilledProcessHasLeftGoes) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const UniqueFd claim = claim_folder(folder());
    [[maybe_unused]] const ssize_t told = ::write(ready[1], "r", 1);
    while (true) {
      ::pause();
    }
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(is_swept());
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(is_swept());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(FolderOwner, WhatIsNotSurelyAbandonedStays) {
  EXPECT_FALSE(is_swept()) << "nobody has claimed it: perhaps it is just being made";
  claim_folder(folder()).release();  // kept locked to the end of this process
  EXPECT_FALSE(is_swept());
  ASSERT_EQ(::unlink((folder() + "/owner").c_str()), 0);
  write("owner", "another boot or host");
  EXPECT_FALSE(is_swept());
  ::unlink((folder() + "/owner").c_str());
  claim_folder(folder());
  ::chmod(folder().c_str(), 0755);
  EXPECT_FALSE(is_swept()) << "not of the mode of a private folder";
  ::chmod(folder().c_str(), 0700);
  ASSERT_EQ(::rename(folder().c_str(), (parent_ + "/moved").c_str()), 0);
  ASSERT_EQ(::symlink("moved", folder().c_str()), 0);
  EXPECT_FALSE(is_swept()) << "a link may lead anywhere";
  ASSERT_EQ(::unlink(folder().c_str()), 0);
  ASSERT_EQ(::rename((parent_ + "/moved").c_str(), folder().c_str()), 0);
  EXPECT_TRUE(is_swept());
}

TEST_F(FolderOwner, AFolderThatCannotBeClaimedIsNotTakenForAbandoned) {
  EXPECT_FALSE(claim_folder(parent_ + "/missing").is_open());
  remove_abandoned_folders(parent_ + "/missing");
}

}  // namespace
}  // namespace ronde::store
