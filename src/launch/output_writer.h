// Writes to a standard stream without ever blocking the launcher, which must hear Ctrl-C while a pager does not read.
//
// O_NONBLOCK is no way: it would be set for everybody who shares the terminal, the user's shell included. Instead no
// more is written at once than a descriptor that polls writable takes for certain (PIPE_BUF).
#pragma once

#include <cstddef>
#include <deque>
#include <string>

namespace ronde::launch {

/// The queue of one destination. Pieces for several descriptors that lead there keep their order.
class OutputWriter {
 public:
  /// Beyond so much the ranks' pipes are read no more, and the ranks that print block: ordinary back-pressure.
  static constexpr std::size_t kRoomBytes = 256 * 1024;

  void put(int fd, std::string text);
  bool is_empty() const { return queue_.empty(); }
  bool has_room() const { return bytes_ < kRoomBytes; }
  /// The descriptor to poll for writing, -1 if there is nothing to write.
  int waiting_fd() const { return queue_.empty() ? -1 : queue_.front().fd; }
  /// Writes what goes at once. 0, or the errno of a write, whose text is lost then; EPIPE: the reader has gone.
  int push();

 private:
  struct Item {
    int fd;
    std::string text;
    std::size_t written = 0;
  };
  std::deque<Item> queue_;
  std::size_t bytes_ = 0;
};

}  // namespace ronde::launch
