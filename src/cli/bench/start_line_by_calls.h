// The start line of a job whose ranks share no memory of one host: they meet in a call of Ronde, an all-reduce of what
// each has to tell. They leave it apart by what such a call takes to end, some microseconds on most networks, which a
// call that follows waits for where it began first.
#pragma once

#include <string>
#include <vector>

#include "cli/measuring/timing/start_line.h"

namespace ronde::cli {

class StartLineByCalls {
 public:
  /// Between ronde_init and ronde_shutdown.
  StartLineByCalls(int rank, int ranks) : rank_(rank), entries_(static_cast<std::size_t>(ranks)) {}
  StartLineByCalls(const StartLineByCalls&) = delete;
  StartLineByCalls& operator=(const StartLineByCalls&) = delete;

  /// This rank's view, which this must outlive.
  StartLine line();

 private:
  /// Why it failed, as a sentence; empty when all ranks' entries are there.
  std::string exchange();

  const int rank_;
  std::vector<StartLineEntry> entries_;
};

}  // namespace ronde::cli
