// LogGuard: while it lives, the log goes to it, and a warning or error that the test did not ask for fails the test.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"

namespace ronde::test {

class LogGuard {
 public:
  LogGuard();
  ~LogGuard();
  LogGuard(const LogGuard&) = delete;
  LogGuard& operator=(const LogGuard&) = delete;

  /// The lines so far, which the test has looked at: they do not fail it any more.
  std::vector<std::string> take();

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace ronde::test
