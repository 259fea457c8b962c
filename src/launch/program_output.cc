#include "launch/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unique_fd.h"

namespace ronde::launch {

std::string output_of_child(const std::function<void(int output)>& work, Nanoseconds limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return {};
  }
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    work(writer.get());
    ::_exit(0);
  }
  writer.reset();
  std::string text;
  const RealClock clock;
  const Nanoseconds deadline = later(clock.now(), limit);
  std::array<char, 4096> buffer;
  pollfd entry{reader.get(), POLLIN, 0};
  while (::poll(&entry, 1, poll_timeout(deadline, clock.now())) > 0) {
    const ssize_t count = ::read(reader.get(), buffer.data(), buffer.size());
    if (count <= 0) {
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (child > 0) {
    ::kill(child, SIGKILL);  // it has ended, or is late
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return text;
}

std::string output_of(const std::vector<std::string>& words, Nanoseconds limit, bool and_errors) {
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  return output_of_child(
      [&](int output) {
        const int null = ::open("/dev/null", O_RDWR);
        ::dup2(null, STDIN_FILENO);
        ::dup2(output, STDOUT_FILENO);
        ::dup2(and_errors ? output : null, STDERR_FILENO);
        ::execvp(arguments[0], arguments.data());
      },
      limit);
}

}  // namespace ronde::launch
