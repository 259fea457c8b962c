#include "transport/tcp/stream.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace ronde::transport {

namespace {

constexpr std::uint32_t kChannelBit = 31;
constexpr std::uint32_t kLengthMask = (std::uint32_t{1} << kChannelBit) - 1;
static_assert(kMaxMessageBytes <= kLengthMask && kStreamChannels == 2);

/// Many small messages come in one read; the rest of a large one goes straight to where it belongs.
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
/// Memory for a message grows with the bytes that have come, not with the length that a peer announces.
constexpr std::size_t kGrowth = std::size_t{4} << 20;

}  // namespace

Stream::Stream(UniqueFd socket, int peer) : socket_(std::move(socket)), peer_(peer), buffer_(kBufferBytes) {}

// ---- Sending

void Stream::send(std::size_t channel, std::span<const std::byte> message) {
  if (!can_send_) {
    return;
  }
  const std::uint32_t head =
      static_cast<std::uint32_t>(message.size()) | (static_cast<std::uint32_t>(channel) << kChannelBit);
  const auto head_bytes = std::as_bytes(std::span(&head, 1));
  std::size_t sent = 0;
  if (kept_.empty()) {
    sent = write(head_bytes, message);
  }
  if (!can_send_) {
    return;
  }
  const std::size_t of_head = std::min(sent, head_bytes.size());
  keep(head_bytes.subspan(of_head));
  keep(message.subspan(sent - of_head));
}

void Stream::keep(std::span<const std::byte> bytes) { kept_.insert(kept_.end(), bytes.begin(), bytes.end()); }

/// How many bytes of both the kernel has taken. A broken connection takes none any more: its end is seen by reading, after
/// what the peer had sent before.
std::size_t Stream::write(std::span<const std::byte> first, std::span<const std::byte> second) {
  iovec parts[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                    {const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (true) {
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      return static_cast<std::size_t>(sent);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return 0;
    }
    if (errno != EINTR) {
      can_send_ = false;
      kept_.clear();
      kept_from_ = 0;
      may_read_ = ends_ = true;
      return 0;
    }
  }
}

bool Stream::flush() {
  while (kept_from_ < kept_.size()) {
    const std::size_t sent = write(std::span(kept_).subspan(kept_from_), {});
    if (sent == 0) {
      break;
    }
    kept_from_ += sent;
  }
  if (kept_from_ >= kept_.size()) {
    kept_.clear();
    kept_from_ = 0;
  } else if (kept_from_ > kept_.size() / 2) {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(kept_from_));
    kept_from_ = 0;
  }
  return kept_.empty();
}

// ---- Receiving

bool Stream::receive(std::size_t channel, std::vector<std::byte>& message) {
  auto& arrived = arrived_[channel];
  while (arrived.empty()) {
    if (!take_in()) {
      return false;
    }
  }
  message = std::move(arrived.front());
  arrived.pop_front();
  return true;
}

/// One more message of some channel; false if none has come whole.
bool Stream::take_in() {
  while (status_.is_ok()) {
    if (assemble()) {
      return true;
    }
    if (!status_.is_ok() || !read_more()) {
      return false;
    }
  }
  return false;
}

/// Takes what has been read of the message that is coming; true once that is whole and lies in its channel.
bool Stream::assemble() {
  if (head_bytes_ < sizeof head_) {
    const std::size_t piece = std::min(end_ - begin_, sizeof head_ - head_bytes_);
    std::memcpy(reinterpret_cast<std::byte*>(&head_) + head_bytes_, buffer_.data() + begin_, piece);
    begin_ += piece;
    head_bytes_ += piece;
    if (head_bytes_ < sizeof head_) {
      return false;
    }
    if ((head_ & kLengthMask) > kMaxMessageBytes) {
      status_ = Status::error(Code::internal, "rank " + std::to_string(peer_) + " has announced a message of " +
                                                  std::to_string(head_ & kLengthMask) + " bytes")
                    .with_rank(peer_);
      return false;
    }
    incoming_.clear();
    incoming_bytes_ = 0;
  }
  const std::size_t length = head_ & kLengthMask;
  const std::size_t piece = std::min(end_ - begin_, length - incoming_bytes_);
  if (incoming_.size() < incoming_bytes_ + piece) {
    incoming_.resize(incoming_bytes_ + piece);
  }
  if (piece > 0) {
    std::memcpy(incoming_.data() + incoming_bytes_, buffer_.data() + begin_, piece);
    begin_ += piece;
    incoming_bytes_ += piece;
  }
  if (incoming_bytes_ < length) {
    return false;
  }
  incoming_.resize(length);
  arrived_[head_ >> kChannelBit].push_back(std::exchange(incoming_, {}));
  incoming_bytes_ = 0;
  head_bytes_ = 0;
  return true;
}

/// Requires: all that was read has been taken.
bool Stream::read_more() {
  if (!may_read_ || has_ended_) {
    return false;
  }
  begin_ = end_ = 0;
  const std::size_t missing = head_bytes_ < sizeof head_ ? 0 : (head_ & kLengthMask) - incoming_bytes_;
  if (missing < kBufferBytes) {
    end_ = read_into(buffer_.data(), kBufferBytes);
    return end_ > 0;
  }
  const std::size_t room = std::min(missing, kGrowth);
  incoming_.resize(incoming_bytes_ + room);
  const std::size_t got = read_into(incoming_.data() + incoming_bytes_, room);
  incoming_bytes_ += got;
  return got > 0;
}

std::size_t Stream::read_into(std::byte* place, std::size_t room) {
  while (true) {
    const ssize_t got = ::recv(socket_.get(), place, room, MSG_DONTWAIT);
    if (got > 0) {
      // Less than was asked for is all there is, but for the end, of which the news may have come already.
      may_read_ = static_cast<std::size_t>(got) == room || ends_;
      return static_cast<std::size_t>(got);
    }
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      may_read_ = ends_ = false;
      return 0;
    }
    has_ended_ = true;
    can_send_ = false;
    kept_.clear();
    kept_from_ = 0;
    return 0;
  }
}

// ---- The end

/// A socket that is closed while something is unread takes back what the peer's kernel has not got yet, not what it has.
bool Stream::finish_sending() {
  if (!flush()) {
    return false;
  }
  if (!std::exchange(has_finished_, true)) {
    ::shutdown(socket_.get(), SHUT_WR);
  }
  int on_its_way = 0;
  return !can_send_ || ::ioctl(socket_.get(), SIOCOUTQ, &on_its_way) != 0 || on_its_way == 0;
}

}  // namespace ronde::transport
