// ConnectingProcess: the process that connects the launcher with an agent. It is ssh, srun, or the agent itself where
// the host is the launcher's own.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::launch {

/// One thread, that which has started it: the process is killed when that thread ends.
class ConnectingProcess {
 public:
  /// Starts `words`, a program (searched in PATH) and its arguments. It leads a session of its own, so that no Ctrl-C
  /// cuts the connection before the ranks have been asked to end, and no password is asked for at the terminal.
  /// SYSTEM_ERROR if there is no pipe or process for it; a program that cannot be run ends with code 127, and errors()
  /// says why.
  static Result<std::unique_ptr<ConnectingProcess>> start(const std::vector<std::string>& words);
  /// Kills it, unless end() has been called.
  ~ConnectingProcess() { end(0); }
  ConnectingProcess(const ConnectingProcess&) = delete;
  ConnectingProcess& operator=(const ConnectingProcess&) = delete;

  /// The end to write to of its standard input, and the end to read from of its standard output: the caller's from then
  /// on. Once each.
  UniqueFd take_input() { return std::move(input_); }
  UniqueFd take_output() { return std::move(output_); }

  /// Adds its standard error, to be polled.
  void watch(std::vector<pollfd>& entries) const;
  /// Takes what has come on its standard error; never blocks.
  void read_errors();
  /// The last of that, at most kKeptErrors bytes.
  const std::string& errors() const { return errors_text_; }
  static constexpr std::size_t kKeptErrors = 4096;

  /// Waits for its end, at most `limit`, and reads what it says meanwhile. Requires: neither end() nor an end seen
  /// before.
  void await_end(Nanoseconds limit);
  /// How it ended, as a shell gives it; -1 if await_end() has not seen that.
  int code() const { return code_; }
  /// Waits for its end, at most `grace`, then kills it. Nothing if it has ended.
  void end(Nanoseconds grace);

 private:
  ConnectingProcess() = default;

  RealClock clock_;
  pid_t pid_ = -1;  ///< -1: it has ended, and its number may be another's
  int code_ = -1;
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd errors_;
  std::string errors_text_;
};

}  // namespace ronde::launch
