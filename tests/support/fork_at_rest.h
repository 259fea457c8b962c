// fork() for tests whose child allocates memory while the parent has other threads.
//
// glibc's malloc is ready for that. A sanitizer's is not (libsanitizer of GCC 12): a lock that another thread held at
// the fork is held in the child for ever, and its next malloc waits for it. So a sanitized test forks once all other
// threads have slept in the kernel for a while, where they hold none; the test sees to it that nothing from outside
// wakes them. Elsewhere it forks at once, whatever the others do: that is what users' programs do too.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace ronde::test {

/// How often every thread of this process but the calling one has gone to sleep, as text; empty if one does not sleep.
inline std::string sleeps_of_other_threads() {
  std::string all = "sleeps";
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) {
      continue;
    }
    std::ifstream file(task.path() / "status");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t switches = text.find("\nvoluntary_ctxt_switches:");
    if (text.find("\nState:\tS") == std::string::npos || switches == std::string::npos) {
      return "";
    }
    all += text.substr(switches);
  }
  return all;
}

/// As fork(). With a sanitizer: -1 and a failed test if the other threads did not come to rest within 10 s.
inline pid_t fork_at_rest() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kRest(30);  // longer than the engine thread looks at anything by itself
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(10);
  std::string seen;
  for (Clock::time_point since = Clock::now(); seen.empty() || Clock::now() - since < kRest;) {
    if (Clock::now() > limit) {
      ADD_FAILURE() << "the other threads did not come to rest";
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::string now = sleeps_of_other_threads();
    if (now != seen) {
      seen = std::move(now);
      since = Clock::now();
    }
  }
#endif
  return ::fork();
}

}  // namespace ronde::test
