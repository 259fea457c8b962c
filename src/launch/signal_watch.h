// The signals that a launcher handles, as a descriptor.
#pragma once

#include <signal.h>

#include <vector>

#include "base/unique_fd.h"

namespace ronde::launch {

/// Blocks the given signals for the calling thread and those that it makes, and gives them through a descriptor.
/// Those that were ignored when the process started stay ignored (nohup); of SIGINT, which a script's shell has its
/// background jobs ignore, only the terminal's Ctrl-C, which is not meant for them: `kill -INT` is. Ignores SIGPIPE.
/// The destructor puts all back.
class SignalWatch {
 public:
  explicit SignalWatch(const std::vector<int>& signals);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Readable when a signal has come.
  int fd() const { return fd_.get(); }
  /// The next that has come, 0 if none.
  int next();

 private:
  sigset_t mask_before_{};
  struct sigaction pipe_before_ {};
  bool in_background_ = false;  ///< SIGINT was ignored
  UniqueFd fd_;
};

}  // namespace ronde::launch
