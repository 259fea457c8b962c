#include "launch/output_writer.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ronde::launch {

void OutputWriter::put(int fd, std::string text) {
  if (text.empty()) {
    return;
  }
  bytes_ += text.size();
  if (!queue_.empty() && queue_.back().fd == fd) {
    queue_.back().text += text;
  } else {
    queue_.push_back({fd, std::move(text), 0});
  }
}

int OutputWriter::push() {
  while (!queue_.empty()) {
    Item& item = queue_.front();
    pollfd entry{item.fd, POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) {
      return 0;
    }
    const std::size_t rest = item.text.size() - item.written;
    const ssize_t count = ::write(item.fd, item.text.data() + item.written, std::min<std::size_t>(rest, PIPE_BUF));
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) {
        return 0;
      }
      const int failure = errno;
      bytes_ -= rest;
      queue_.pop_front();
      return failure;
    }
    item.written += static_cast<std::size_t>(count);
    bytes_ -= static_cast<std::size_t>(count);
    if (item.written == item.text.size()) {
      queue_.pop_front();
    }
  }
  return 0;
}

}  // namespace ronde::launch
