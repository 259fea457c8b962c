#include "launch/connecting_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace ronde::launch {

namespace {

struct PipePair {
  UniqueFd reader;
  UniqueFd writer;

  static Result<PipePair> make() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return Status::from_errno("pipe", errno);
    }
    return PipePair{UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
};

/// The child: leads a session of its own, so that no Ctrl-C cuts the connection before the ranks have been asked to
/// end, and no password is asked for at the terminal.
[[noreturn]] void become_connection(const std::vector<std::string>& words, const std::array<int, 3>& standard,
                                    pid_t parent) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(127);
  }
  for (int fd = 0; fd < 3; ++fd) {
    ::dup2(standard[static_cast<std::size_t>(fd)], fd);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::dprintf(STDERR_FILENO, "%s: %s\n", arguments[0], std::strerror(errno));  // the launcher reads it
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<ConnectingProcess>> ConnectingProcess::start(const std::vector<std::string>& words) {
  RONDE_ASSIGN_OR_RETURN(PipePair in, PipePair::make());
  RONDE_ASSIGN_OR_RETURN(PipePair out, PipePair::make());
  RONDE_ASSIGN_OR_RETURN(PipePair errors, PipePair::make());
  std::unique_ptr<ConnectingProcess> process(new ConnectingProcess);
  const pid_t parent = ::getpid();
  process->pid_ = ::fork();
  if (process->pid_ < 0) {
    return Status::from_errno("fork", errno);
  }
  if (process->pid_ == 0) {
    become_connection(words, {in.reader.get(), out.writer.get(), errors.writer.get()}, parent);
  }
  process->input_ = std::move(in.writer);
  process->output_ = std::move(out.reader);
  process->errors_ = std::move(errors.reader);
  ::fcntl(process->errors_.get(), F_SETFL, O_RDONLY | O_NONBLOCK);
  return process;
}

void ConnectingProcess::watch(std::vector<pollfd>& entries) const {
  if (errors_.is_open()) {
    entries.push_back({errors_.get(), POLLIN, 0});
  }
}

void ConnectingProcess::read_errors() {
  std::array<char, 4096> buffer;
  while (errors_.is_open()) {
    const ssize_t count = ::read(errors_.get(), buffer.data(), buffer.size());
    if (count < 0) {
      return;
    }
    if (count == 0) {
      errors_.reset();
      return;
    }
    errors_text_.append(buffer.data(), static_cast<std::size_t>(count));
    if (errors_text_.size() > kKeptErrors) {
      errors_text_.erase(0, errors_text_.size() - kKeptErrors);
    }
  }
}

void ConnectingProcess::await_end(Nanoseconds limit) {
  const Nanoseconds deadline = later(clock_.now(), limit);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0 && clock_.now() < deadline) {
    pollfd entry{errors_.get(), POLLIN, 0};
    ::poll(&entry, 1, 10);
    read_errors();
  }
  read_errors();
  if (ended == pid_) {
    pid_ = -1;
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
}

void ConnectingProcess::end(Nanoseconds grace) {
  if (pid_ <= 0) {
    return;
  }
  const Nanoseconds deadline = later(clock_.now(), grace);
  pid_t ended = 0;
  while (grace > 0 && (ended = ::waitpid(pid_, nullptr, WNOHANG)) == 0 && clock_.now() < deadline) {
    ::poll(nullptr, 0, 2);
  }
  if (ended != pid_) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
}

}  // namespace ronde::launch
