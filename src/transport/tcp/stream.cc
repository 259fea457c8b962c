#include "transport/tcp/stream.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/copy_bytes.h"

namespace ronde::transport {

namespace {

/// Many small messages come in one read; the rest of a large one goes straight to where it belongs.
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
/// Memory for a message grows with the bytes that have come, not with the length that a peer announces.
constexpr std::size_t kGrowth = std::size_t{4} << 20;
/// Messages from this size on get memory of their own, which is used again; of smaller ones the bytes are copied.
constexpr std::size_t kLarge = std::size_t{16} << 10;
constexpr std::size_t kMostSpares = 8;
/// One call to the kernel takes so many, the head included; what is left is copied.
constexpr std::size_t kMostParts = OutgoingBytes::kMostParts;

std::string changed_by(int peer) {
  return "what rank " + std::to_string(peer) +
         " has sent was changed on the way: its checksum is wrong. A network card, cable, switch or memory is broken, "
         "there or here; see RONDE_TCP_INTEGRITY";
}

}  // namespace

Stream::Stream(UniqueFd socket, int peer, Integrity integrity)
    : socket_(std::move(socket)),
      kept_from_children_(socket_.get()),
      peer_(peer),
      integrity_(integrity),
      buffer_(kBufferBytes),
      head_(integrity) {}

std::uint32_t Stream::events() const { return EPOLLIN | EPOLLOUT | EPOLLRDHUP; }

void Stream::note_events(std::uint32_t events) { note_news((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0); }

// ---- Sending

/// How many bytes of the message are on their way; what is left of its head is kept. Requires: nothing is lent.
std::size_t Stream::send_some(Channel channel, Parts message) {
  MessageHead head(integrity_);
  head.describe(channel, message);
  std::array<std::span<const std::byte>, kMostParts> parts;
  parts[0] = head.bytes();
  const std::size_t count = std::min(message.size(), kMostParts - 1);
  std::copy_n(message.begin(), count, parts.begin() + 1);
  const std::size_t sent = outgoing_.is_empty() ? write(std::span(parts).first(count + 1)) : 0;
  if (!can_send_) {
    return head.length();
  }
  const std::size_t of_head = std::min(sent, parts[0].size());
  outgoing_.keep(parts[0].subspan(of_head));
  return sent - of_head;
}

void Stream::send(Channel channel, Parts message) {
  if (!can_send_) {
    return;
  }
  keep_lent();
  std::size_t sent = send_some(channel, message);
  for (const std::span<const std::byte> part : message) {
    const std::size_t gone = std::min(sent, part.size());
    outgoing_.keep(part.subspan(gone));
    sent -= gone;
  }
}

void Stream::send_lent(Channel channel, Parts message) {
  if (!can_send_) {
    return;
  }
  keep_lent();
  std::size_t sent = send_some(channel, message);
  for (std::size_t i = 0; i < message.size(); ++i) {
    const std::span<const std::byte> rest = message[i].subspan(std::min(sent, message[i].size()));
    sent -= message[i].size() - rest.size();
    if (i == 0) {
      outgoing_.keep(rest);
    } else if (!rest.empty()) {
      outgoing_.lend(rest);
    }
  }
}

void Stream::keep_lent() { outgoing_.keep_lent(); }

void Stream::drop_lent() {
  if (outgoing_.has_lent()) {
    outgoing_.drop();
    can_send_ = false;
    ::shutdown(socket_.get(), SHUT_RDWR);  // so that the peer does not wait for the rest
    may_read_ = ends_ = true;
  }
}

/// How many bytes of all the kernel has taken. A broken connection takes none any more: its end is seen by reading,
/// after what the peer had sent before. Requires: at most kMostParts.
std::size_t Stream::write(Parts parts) {
  std::array<iovec, kMostParts> places;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    places[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
  }
  msghdr message{};
  message.msg_iov = places.data();
  message.msg_iovlen = parts.size();
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
      outgoing_.drop();
      may_read_ = ends_ = true;
      return 0;
    }
  }
}

bool Stream::flush() {
  return outgoing_.flush([this](Parts parts) { return write(parts); });
}

// ---- Receiving

void Stream::recycle(std::vector<std::byte>&& memory) {
  if (memory.size() >= kLarge && memory.size() <= kGrowth && spares_.size() < kMostSpares) {
    spares_.push_back(std::move(memory));
  }
}

bool Stream::next(Channel& of, std::vector<std::byte>& message) {
  while (status_.is_ok()) {
    if (assemble()) {
      of = head_.channel();
      if (head_.length() < kLarge) {
        message.assign(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(head_.length()));
      } else {
        incoming_.resize(head_.length());
        message = std::exchange(incoming_, {});
        if (!spares_.empty()) {
          incoming_ = std::move(spares_.back());
          spares_.pop_back();
        }
      }
      incoming_bytes_ = 0;
      head_bytes_ = 0;
      return true;
    }
    if (!status_.is_ok() || !read_more()) {
      return false;
    }
  }
  return false;
}

void Stream::note_damage(const std::string& what) { status_ = Status::error(Code::internal, what).with_rank(peer_); }

/// Takes what has been read of the message that is coming; true once that is whole.
bool Stream::assemble() {
  if (head_bytes_ < head_.size()) {
    const std::size_t piece = std::min(end_ - begin_, head_.size() - head_bytes_);
    std::memcpy(head_.bytes().data() + head_bytes_, buffer_.data() + begin_, piece);
    begin_ += piece;
    head_bytes_ += piece;
    if (head_bytes_ < head_.size()) {
      return false;
    }
    if (!head_.is_intact()) {
      note_damage(changed_by(peer_));
      return false;
    }
    if (head_.length() > kMaxMessageBytes) {
      note_damage("rank " + std::to_string(peer_) + " has announced a message of " + std::to_string(head_.length()) +
                  " bytes");
      return false;
    }
    checksum_.restart();
    incoming_bytes_ = 0;
  }
  const std::size_t piece = std::min(end_ - begin_, head_.length() - incoming_bytes_);
  if (incoming_.size() < incoming_bytes_ + piece) {
    incoming_.resize(incoming_bytes_ + piece);
  }
  if (piece > 0) {
    copy_bytes(incoming_.data() + incoming_bytes_, buffer_.data() + begin_, piece);
    take_piece(piece);
    begin_ += piece;
  }
  if (incoming_bytes_ < head_.length()) {
    return false;
  }
  if (!head_.matches(checksum_)) {
    note_damage(changed_by(peer_));
    return false;
  }
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
  if (!may_read_ || is_at_end()) {
    return false;
  }
  begin_ = end_ = 0;
  const std::size_t missing = head_bytes_ < head_.size() ? 0 : head_.length() - incoming_bytes_;
  if (missing < kBufferBytes) {
    end_ = read_into(buffer_.data(), kBufferBytes);
    return end_ > 0;
  }
  const std::size_t room = std::min(missing, kGrowth);
  if (incoming_.size() < incoming_bytes_ + room) {
    incoming_.resize(incoming_bytes_ + room);
  }
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
  note_end();
  can_send_ = false;
  outgoing_.drop();
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
  if (is_at_end() || !timeout.is_ever()) {
    return false;
  }
  const Owed owed = owed_by(socket_.get());
  if (!silence_.look(owed, now, timeout)) {
    return owed.under_way;
  }
  note_cause(ETIMEDOUT);
  reset_connection();
  end();
  return false;
}

/// A peer that this rank does not hear may hear this rank. With nothing to send it would not notice: the kernel here
/// repeats its last segment for longer than the limit, and the peer's takes that for a sign of life. To dissolve an
/// association tells the peer.
void Stream::reset_connection() {
  sockaddr none{};
  none.sa_family = AF_UNSPEC;
  ::connect(socket_.get(), &none, sizeof none);
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
