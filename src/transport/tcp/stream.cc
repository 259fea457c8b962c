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

/// Many small messages come in one read; the rest of a large one goes straight to where it belongs.
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
/// Memory for a message grows with the bytes that have come, not with the length that a peer announces.
constexpr std::size_t kGrowth = std::size_t{4} << 20;

std::string changed_by(int peer) {
  return "what rank " + std::to_string(peer) +
         " has sent was changed on the way: its checksum is wrong. A network card, cable, switch or memory is broken, "
         "there or here; see RONDE_TCP_INTEGRITY";
}

}  // namespace

Stream::Stream(UniqueFd socket, int peer, Integrity integrity, OnArrival on_arrival)
    : socket_(std::move(socket)),
      kept_from_children_(socket_.get()),
      peer_(peer),
      integrity_(integrity),
      buffer_(kBufferBytes),
      on_arrival_(std::move(on_arrival)) {}

// ---- Sending

void Stream::send(Channel channel, std::span<const std::byte> message) {
  if (!can_send_) {
    return;
  }
  const auto length = static_cast<std::uint32_t>(message.size());
  Head head;
  std::memcpy(head.data(), &length, sizeof length);
  std::memcpy(head.data() + sizeof length, &channel, sizeof channel);
  if (integrity_ == Integrity::checksum) {
    const std::uint64_t sum = Checksum::of(message);
    std::memcpy(head.data() + kPlainHead, &sum, sizeof sum);
    const auto own = static_cast<std::uint32_t>(Checksum::of(std::span(head).first(kSummedHead)));
    std::memcpy(head.data() + kSummedHead, &own, sizeof own);
  }
  const auto head_bytes = std::span<const std::byte>(head).first(head_size());
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

/// How many bytes of both the kernel has taken. A broken connection takes none any more: its end is seen by reading,
/// after what the peer had sent before.
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
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) {
      return 0;
    }
    if (errno != EINTR) {
      note_cause(errno);
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

bool Stream::receive(Channel channel, std::vector<std::byte>& message) {
  auto arrived = arrived_.find(channel);
  while (arrived == arrived_.end()) {
    if (!take_in()) {
      return false;
    }
    arrived = arrived_.find(channel);
  }
  message = std::move(arrived->second.front());
  arrived->second.pop_front();
  if (arrived->second.empty()) {
    arrived_.erase(arrived);
  }
  return true;
}

std::size_t Stream::length() const {
  std::uint32_t length = 0;
  std::memcpy(&length, head_.data(), sizeof length);
  return length;
}

Stream::Channel Stream::channel() const {
  Channel channel = 0;
  std::memcpy(&channel, head_.data() + sizeof(std::uint32_t), sizeof channel);
  return channel;
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

bool Stream::is_head_whole() const {
  std::uint32_t own = 0;
  std::memcpy(&own, head_.data() + kSummedHead, sizeof own);
  return integrity_ == Integrity::off ||
         own == static_cast<std::uint32_t>(Checksum::of(std::span(head_).first(kSummedHead)));
}

bool Stream::is_message_whole() const {
  std::uint64_t sum = 0;
  std::memcpy(&sum, head_.data() + kPlainHead, sizeof sum);
  return integrity_ == Integrity::off || sum == checksum_.value();
}

void Stream::note_damage(const std::string& what) { status_ = Status::error(Code::internal, what).with_rank(peer_); }

/// Takes what has been read of the message that is coming; true once that is whole and lies in its channel.
bool Stream::assemble() {
  if (head_bytes_ < head_size()) {
    const std::size_t piece = std::min(end_ - begin_, head_size() - head_bytes_);
    std::memcpy(head_.data() + head_bytes_, buffer_.data() + begin_, piece);
    begin_ += piece;
    head_bytes_ += piece;
    if (head_bytes_ < head_size()) {
      return false;
    }
    if (!is_head_whole()) {
      note_damage(changed_by(peer_));
      return false;
    }
    if (length() > kMaxMessageBytes) {
      note_damage("rank " + std::to_string(peer_) + " has announced a message of " + std::to_string(length()) +
                  " bytes");
      return false;
    }
    checksum_.restart();
    incoming_.clear();
    incoming_bytes_ = 0;
  }
  const std::size_t piece = std::min(end_ - begin_, length() - incoming_bytes_);
  if (incoming_.size() < incoming_bytes_ + piece) {
    incoming_.resize(incoming_bytes_ + piece);
  }
  if (piece > 0) {
    std::memcpy(incoming_.data() + incoming_bytes_, buffer_.data() + begin_, piece);
    take_piece(piece);
    begin_ += piece;
  }
  if (incoming_bytes_ < length()) {
    return false;
  }
  incoming_.resize(length());
  if (!is_message_whole()) {
    note_damage(changed_by(peer_));
    return false;
  }
  if (!on_arrival_ || on_arrival_(channel())) {
    arrived_[channel()].push_back(std::exchange(incoming_, {}));
  }
  incoming_bytes_ = 0;
  head_bytes_ = 0;
  return true;
}

/// So many more bytes of the message that is coming lie where they belong; they are in the processor's cache yet.
void Stream::take_piece(std::size_t bytes) {
  if (integrity_ == Integrity::checksum) {
    checksum_.add(std::span(incoming_).subspan(incoming_bytes_, bytes));
  }
  incoming_bytes_ += bytes;
}

/// Requires: all that was read has been taken.
bool Stream::read_more() {
  if (!may_read_ || has_ended_) {
    return false;
  }
  begin_ = end_ = 0;
  const std::size_t missing = head_bytes_ < head_size() ? 0 : length() - incoming_bytes_;
  if (missing < kBufferBytes) {
    end_ = read_into(buffer_.data(), kBufferBytes);
    return end_ > 0;
  }
  const std::size_t room = std::min(missing, kGrowth);
  incoming_.resize(incoming_bytes_ + room);
  const std::size_t got = read_into(incoming_.data() + incoming_bytes_, room);
  take_piece(got);
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
    if (got < 0) {
      note_cause(errno);
    }
    end();
    return 0;
  }
}

// ---- The end

void Stream::end() {
  has_ended_ = true;
  can_send_ = false;
  kept_.clear();
  kept_from_ = 0;
}

/// The first is the cause, what it led to is not.
void Stream::note_cause(int error) {
  if (!end_cause_.empty() || error == EPIPE) {  // EPIPE follows an end that reading tells of
    return;
  }
  if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
    end_cause_ = "its host does not answer any more";
  } else {
    end_cause_ = error == ECONNRESET ? "its connection was reset"
                                     : Status::from_errno("its connection has failed", error).message();
  }
}

bool Stream::watch(Nanoseconds now, const HostTimeout& timeout) {
  if (has_ended_ || !timeout.is_ever()) {
    return false;
  }
  const Owed owed = owed_by(socket_.get());
  if (!silence_.look(owed, now, timeout)) {
    return owed.under_way;
  }
  note_cause(ETIMEDOUT);
  end();
  return false;
}

/// A socket that is closed while something is unread takes back what the peer's kernel has not got yet, not what it
/// has.
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
