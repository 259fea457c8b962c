#include "launch/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/core_set.h"

namespace ronde::launch {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& each : strings) {
    result.push_back(const_cast<char*>(each.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

void restore_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    ::sigaction(number, &standard, nullptr);  // fails for those that cannot be changed
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// In the child. Returns the error number if the program cannot be started.
int become(char* const* arguments, char** environment, const RankStart& start, const rlimit& open_files, pid_t parent) {
  ::setpgid(0, 0);
  // Should the guardian be killed. It says nothing if the guardian has gone already, hence the look at the parent.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    return ESRCH;
  }
  int target = STDIN_FILENO;
  for (const UniqueFd* fd : {&start.input, &start.output, &start.error}) {
    if (fd->is_open() && ::dup2(fd->get(), target) < 0) {
      return errno;
    }
    ++target;
  }
  if (!start.cores.empty() && !CoreSet::of(start.cores).apply()) {
    return errno;
  }
  ::setrlimit(RLIMIT_NOFILE, &open_files);
  restore_signals();
  environ = environment;  // execvp() searches the PATH of this environment
  ::execvp(arguments[0], arguments);
  return errno;
}

}  // namespace

StartedRank start_rank(const std::vector<std::string>& command, const RankStart& start, const rlimit& open_files) {
  // The child's last word: nothing (the descriptor closes on exec), or why there is no program.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return {-1, false, errno};
  }
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const std::vector<char*> arguments = pointers(command);
  std::vector<char*> environment = pointers(start.environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return {-1, false, errno};
  }
  if (child == 0) {
    const int failure = become(arguments.data(), environment.data(), start, open_files, parent);
    (void)!::write(writer.get(), &failure, sizeof failure);
    ::_exit(127);
  }
  writer.reset();
  int failure = 0;
  ssize_t got = 0;
  do {
    got = ::read(reader.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof failure) {
    return {child, true, 0};
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {-1, true, failure};
}

}  // namespace ronde::launch
