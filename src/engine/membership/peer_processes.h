// PeerProcesses: tells when processes of peers have ended. One descriptor stands for all of them, so that a sleep asks
// the kernel for one, however many peers there are.
#pragma once

#include <utility>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::engine {

class PeerProcesses {
 public:
  /// `descriptors`: a pidfd of each peer, or another descriptor that becomes readable at its end; negative ones are
  /// left out. They must stay open as long as this. SYSTEM_ERROR if one is refused.
  static Result<PeerProcesses> watch(std::vector<int> descriptors);

  /// Readable while there are ends that ended() has not given.
  int descriptor() const { return set_.get(); }
  /// Those of the peers, by their places in the list, that have ended since the last call; some of them, if many have.
  std::vector<int> ended();

 private:
  PeerProcesses(UniqueFd set, std::vector<int> descriptors)
      : set_(std::move(set)), descriptors_(std::move(descriptors)) {}

  UniqueFd set_;  ///< an epoll set of those whose ends are not seen yet
  std::vector<int> descriptors_;
};

}  // namespace ronde::engine
