#include "launch/frame_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ronde::launch {

namespace {

constexpr std::size_t kHeadBytes = sizeof(std::uint32_t) + 1;
constexpr std::size_t kTailBytes = 1;
constexpr char kTail = '\n';
/// At most so much is read before the loop looks at something else.
constexpr std::size_t kGulpBytes = 1 << 20;

bool is_ready(const std::vector<pollfd>& entries, int fd, short events) {
  return std::any_of(entries.begin(), entries.end(), [&](const pollfd& entry) {
    return entry.fd == fd && (entry.revents & (events | POLLHUP | POLLERR)) != 0 && (entry.events & events) != 0;
  });
}

}  // namespace

FramePipe::FramePipe(UniqueFd in, UniqueFd out, bool expects_greeting)
    : in_(std::move(in)), out_(std::move(out)), expects_greeting_(expects_greeting) {
  for (const UniqueFd* fd : {&in_, &out_}) {
    ::fcntl(fd->get(), F_SETFL, ::fcntl(fd->get(), F_GETFL) | O_NONBLOCK);
  }
}

void FramePipe::put_raw(std::string bytes) {
  waiting_ += bytes.size();
  queue_.push_back(std::move(bytes));
}

void FramePipe::put(FrameKind kind, std::string_view bytes) { put(kind, {}, bytes); }

void FramePipe::put(FrameKind kind, std::string_view head, std::string_view bytes) {
  const auto size = static_cast<std::uint32_t>(head.size() + bytes.size());
  std::string frame(kHeadBytes, '\0');
  std::memcpy(frame.data(), &size, sizeof size);
  frame[sizeof size] = static_cast<char>(kind);
  frame.append(head).append(bytes) += kTail;
  put_raw(std::move(frame));
}

void FramePipe::watch(std::vector<pollfd>& entries, bool for_reading) const {
  if (for_reading && in_.is_open() && !ended_) {
    entries.push_back({in_.get(), POLLIN, 0});
  }
  if (out_.is_open() && !queue_.empty()) {
    entries.push_back({out_.get(), POLLOUT, 0});
  }
}

void FramePipe::move(const std::vector<pollfd>& entries) {
  if (!queue_.empty() && is_ready(entries, out_.get(), POLLOUT)) {
    flush();
  }
  if (!ended_ && is_ready(entries, in_.get(), POLLIN)) {
    read();
  }
}

void FramePipe::flush() {
  while (!queue_.empty() && out_.is_open()) {
    const std::string& first = queue_.front();
    const ssize_t count = ::write(out_.get(), first.data() + written_, first.size() - written_);
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno != EAGAIN) {
        out_.reset();  // the reading end tells what has become of the other side
        queue_.clear();
        waiting_ = written_ = 0;
      }
      return;
    }
    written_ += static_cast<std::size_t>(count);
    waiting_ -= static_cast<std::size_t>(count);
    if (written_ == first.size()) {
      queue_.pop_front();
      written_ = 0;
    }
  }
}

void FramePipe::read() {
  std::array<char, 65536> buffer;
  for (std::size_t gulped = 0; gulped < kGulpBytes && !ended_;) {
    const ssize_t count = ::read(in_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno == EAGAIN) {
      break;
    }
    if (count <= 0) {
      ended_ = true;
      break;
    }
    gulped += static_cast<std::size_t>(count);
    got_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (expects_greeting_) {
    skip_noise();
  }
}

void FramePipe::skip_noise() {
  const std::size_t found = got_.find(kGreeting);
  if (found != std::string::npos) {
    noise_ = got_.substr(0, found);
    got_.erase(0, found + kGreeting.size());
    expects_greeting_ = false;
  } else if (ended_ || got_.size() > kMaxNoiseBytes) {
    noise_ = std::move(got_);
    got_.clear();
    ended_ = true;
  }
}

bool FramePipe::has_frame() const {
  if (expects_greeting_ || got_.size() - used_ < kHeadBytes) {
    return false;
  }
  std::uint32_t size = 0;
  std::memcpy(&size, got_.data() + used_, sizeof size);
  return got_.size() - used_ - kHeadBytes >= size + kTailBytes;
}

std::optional<Frame> FramePipe::take() {
  if (expects_greeting_ || got_.size() - used_ < kHeadBytes) {
    return std::nullopt;
  }
  std::uint32_t size = 0;
  std::memcpy(&size, got_.data() + used_, sizeof size);
  if (size > kMaxFrameBytes) {
    damage_ = "a frame of " + std::to_string(size) + " bytes";
    ended_ = true;
    got_.clear();
    used_ = 0;
    return std::nullopt;
  }
  if (!has_frame()) {
    return std::nullopt;
  }
  Frame frame{static_cast<FrameKind>(got_[used_ + sizeof size]), got_.substr(used_ + kHeadBytes, size)};
  used_ += kHeadBytes + size + kTailBytes;
  if (used_ == got_.size() || used_ > kGulpBytes) {
    got_.erase(0, used_);
    used_ = 0;
  }
  return frame;
}

void FramePipe::close() {
  in_.reset();
  out_.reset();
  ended_ = true;
}

}  // namespace ronde::launch
