// For tests of the command: runs the real program, and sees every process of the job that it started.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "launch/process_tree.h"

namespace ronde::cli {

inline constexpr Nanoseconds kPatience = 60 * kSecond;

inline bool eventually(const std::function<bool()>& condition) {
  const RealClock clock;
  const Nanoseconds deadline = clock.now() + kPatience;
  while (!condition()) {
    if (clock.now() > deadline) {
      return false;
    }
    ::poll(nullptr, 0, 2);
  }
  return true;
}

inline char state_of(pid_t pid) {
  for (const auto& process : launch::list_processes()) {
    if (process.pid == pid) {
      return process.state;
    }
  }
  return '-';
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A run of the program, with a folder of its own for temporary files, and a mark in the environment by which every
/// process of the job is found, whatever it has become.
class LaunchedJob {
 public:
  explicit LaunchedJob(std::vector<std::string> arguments, bool read_output = true) : read_output_(read_output) {
    folder_ = testing::TempDir() + "run-XXXXXX";
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    mark_ = "RONDE_TEST_MARK=" + folder_;
    arguments.insert(arguments.begin(), RONDE_EXECUTABLE);
    for (UniqueFd* end : {&output_, &error_, &input_}) {
      int ends[2];
      EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
      end->reset(ends[end == &input_ ? 1 : 0]);
      theirs_.emplace_back(ends[end == &input_ ? 0 : 1]);
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      become(arguments);
    }
    theirs_.clear();
    ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(error_.get(), F_SETFL, O_NONBLOCK);
  }

  ~LaunchedJob() {
    for (const pid_t pid : processes()) {
      ::kill(pid, SIGKILL);
    }
    if (!ended_) {
      ::waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  pid_t pid() const { return pid_; }
  const std::string& folder() const { return folder_; }
  void close_input() { input_.reset(); }
  void close_output() { output_.reset(); }
  int output_fd() const { return output_.get(); }
  /// Bytes that wait to be read.
  int waiting_output() const {
    int bytes = 0;
    ::ioctl(output_.get(), FIONREAD, &bytes);
    return bytes;
  }
  void type(const std::string& text) {
    EXPECT_EQ(::write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  /// The exit code as a shell gives it; -1 if the launcher does not end.
  int exit_code() {
    int status = 0;
    ended_ = eventually([&] {
      gather();
      return ::waitpid(pid_, &status, WNOHANG) == pid_;
    });
    gather();
    if (!ended_) {
      return -1;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  const std::string& output() {
    gather();
    return output_text_;
  }
  const std::string& error() {
    gather();
    return error_text_;
  }
  bool prints(const std::string& text) {
    return eventually([&] { return output().find(text) != std::string::npos; });
  }

  /// All living processes of the job, launcher and guardian included.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    for (const auto& process : launch::list_processes()) {
      const std::string path = "/proc/" + std::to_string(process.pid) + "/environ";
      if (process.pid != ::getpid() && process.state != 'Z' && read_file(path).find(mark_) != std::string::npos) {
        found.push_back(process.pid);
      }
    }
    return found;
  }
  /// The launcher's only child.
  pid_t guardian() const {
    for (const auto& process : launch::list_processes()) {
      if (process.parent == pid_) {
        return process.pid;
      }
    }
    return -1;
  }
  /// The process of a rank, 0 if there is none (yet).
  pid_t rank(int number) const {
    const std::string place = "RONDE_RANK=" + std::to_string(number);
    const pid_t parent = guardian();
    for (const auto& process : launch::list_processes()) {
      // An adopted daemon has the rank's environment too, but its session is its own.
      const std::string path = "/proc/" + std::to_string(process.pid) + "/environ";
      if (process.parent == parent && ::getsid(process.pid) == parent &&
          read_file(path).find(place + std::string(1, '\0')) != std::string::npos) {
        return process.pid;
      }
    }
    return 0;
  }
  /// Nothing of the job is left: no process, no folder with a socket.
  bool is_clean() const {
    return eventually([&] { return processes().empty() && std::filesystem::is_empty(folder_ + "/tmp"); });
  }

 private:
  [[noreturn]] void become(const std::vector<std::string>& arguments) {
    // A test runner may ignore signals.
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) {
      ::signal(number, SIG_DFL);
    }
    ::dup2(theirs_[2].get(), 0);
    ::dup2(theirs_[0].get(), 1);
    ::dup2(theirs_[1].get(), 2);
    std::filesystem::create_directory(folder_ + "/tmp");
    ::unsetenv("XDG_RUNTIME_DIR");
    ::unsetenv("OMP_NUM_THREADS");
    ::setenv("TMPDIR", (folder_ + "/tmp").c_str(), 1);
    ::setenv("XDG_CACHE_HOME", (folder_ + "/cache").c_str(), 1);
    ::putenv(mark_.data());
    std::vector<char*> pointers;
    for (const std::string& each : arguments) {
      pointers.push_back(const_cast<char*>(each.c_str()));
    }
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(99);
  }

  void gather() {
    if (!read_output_) {
      return;
    }
    for (const auto& [fd, text] : {std::pair{output_.get(), &output_text_}, std::pair{error_.get(), &error_text_}}) {
      char buffer[4096];
      ssize_t count = 0;
      while ((count = ::read(fd, buffer, sizeof buffer)) > 0) {
        text->append(buffer, static_cast<std::size_t>(count));
      }
    }
  }

  std::string folder_;
  std::string mark_;
  bool read_output_;
  pid_t pid_ = -1;
  bool ended_ = false;
  UniqueFd output_;
  UniqueFd error_;
  UniqueFd input_;
  std::vector<UniqueFd> theirs_;
  std::string output_text_;
  std::string error_text_;
};

}  // namespace ronde::cli
