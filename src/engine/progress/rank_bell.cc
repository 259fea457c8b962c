#include "engine/progress/rank_bell.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/poll_for.h"

namespace ronde::engine {

transport::Wake RankBell::sleep_as_driver(Nanoseconds limit) {
  return has_news() ? poll_for_news(limit) : sleeper_.sleep(limit);
}

transport::Wake RankBell::poll_for_news(Nanoseconds limit) const {
  pollfd fds[] = {{fd(), POLLIN, 0}, {news_fd_, POLLIN, 0}};
  const int count = poll_for(fds, limit);
  if (count < 0) {
    return errno == EINTR ? transport::Wake::interrupted : transport::Wake::rung;
  }
  if (fds[0].revents != 0) {
    transport::silence(fd());
  }
  return count == 0 ? transport::Wake::timeout : transport::Wake::rung;
}

void RankBell::wake_again() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd(), &one, sizeof one);
}

}  // namespace ronde::engine
