#include "support/log_guard.h"

#include <gtest/gtest.h>

#include <utility>

namespace ronde::test {

LogGuard::LogGuard() {
  set_log_sink([this](LogLevel level, int rank, const std::string& message) {
    if (level >= LogLevel::warning) {
      std::lock_guard lock(mutex_);
      lines_.push_back("rank " + std::to_string(rank) + " " + std::string(log_level_name(level)) + ": " + message);
    }
  });
}

LogGuard::~LogGuard() {
  set_log_sink({});
  for (const std::string& line : lines_) {
    ADD_FAILURE() << "unexpected in the log: " << line;
  }
}

std::vector<std::string> LogGuard::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

}  // namespace ronde::test
