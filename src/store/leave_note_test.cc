#include "store/leave_note.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/private_folder.h"

namespace ronde::store {
namespace {

class LeaveNotes : public testing::Test {
 protected:
  std::string address() const { return "unix:" + folder_.path() + "/store"; }

  PrivateFolder folder_ = PrivateFolder::create().value();
};

TEST_F(LeaveNotes, TellsWhenARankHasLeft) {
  EXPECT_EQ(noted_leaving(folder_.path(), 3), std::nullopt);
  note_leaving(address(), 3, {12'345'678'901, true});
  EXPECT_EQ(noted_leaving(folder_.path(), 3), (LeaveNote{12'345'678'901, true}));
  EXPECT_EQ(noted_leaving(folder_.path(), 30), std::nullopt);
  note_leaving(address(), 3, {7, false});
  EXPECT_EQ(noted_leaving(folder_.path(), 3), (LeaveNote{7, false}));
}

TEST_F(LeaveNotes, ARankThatIsBackHasNotLeft) {
  note_leaving(address(), 0, {5, false});
  forget_leaving(address(), 0);
  forget_leaving(address(), 1);
  EXPECT_EQ(noted_leaving(folder_.path(), 0), std::nullopt);
}

TEST_F(LeaveNotes, OtherAddressesAndFoldersThatAreGoneAreNoFailure) {
  for (const char* other : {"", "unix:", "unix:store", "tcp:host/1", "unix:/nowhere/at/all/store"}) {
    note_leaving(other, 0, {5, false});
    forget_leaving(other, 0);
  }
  EXPECT_EQ(noted_leaving("/nowhere/at/all", 0), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists("left.0"));
}

TEST_F(LeaveNotes, WhatIsNoNumberIsNoNote) {
  std::ofstream(folder_.path() + "/left.1") << "soon";
  std::ofstream(folder_.path() + "/left.2");
  EXPECT_EQ(noted_leaving(folder_.path(), 1), std::nullopt);
  EXPECT_EQ(noted_leaving(folder_.path(), 2), std::nullopt);
}

}  // namespace
}  // namespace ronde::store
