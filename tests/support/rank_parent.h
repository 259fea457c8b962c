// The parent of a RankTest: starts the ranks, lets them meet, watches the clock, judges how they ended.
#pragma once

#include <string>
#include <vector>

namespace ronde::test {

struct ParentOptions {
  int ranks = 2;
  double limit_s = 55;
  std::vector<std::string> arguments;  ///< for the ranks: what was not for the parent
};

/// The exit code of the test program.
int run_ranks(const ParentOptions& options);

/// Environment and protocol between parent and ranks.
inline constexpr const char* kSocketVariable = "RONDE_TEST_SOCKET";
inline constexpr const char* kFolderVariable = "RONDE_TEST_FOLDER";
/// Of the parent, where ranks are to be of several hosts: "0,0,1".
inline constexpr const char* kHostsVariable = "RONDE_TEST_HOSTS";
inline constexpr char kMeet = 'm';        ///< rank: I am here; parent, to all: go on
inline constexpr char kExpectExit = 'x';  ///< rank: followed by one byte, the code I shall end with

}  // namespace ronde::test
