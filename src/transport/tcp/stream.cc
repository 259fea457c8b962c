#include "transport/tcp/stream.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "transport/tcp/message_head.h"

namespace ronde::transport {

namespace {

/// One call to the kernel takes so many, the head included; what is left is copied.
constexpr std::size_t kMostParts = OutgoingBytes::kMostParts;

}  // namespace

Stream::Stream(TcpConnection connection, int peer, Integrity integrity)
    : socket_(std::move(connection.socket)),
      kept_from_children_(socket_.get()),
      tags_(integrity, connection.sending),
      incoming_(peer, MessageTags(integrity, connection.receiving)) {}

std::uint32_t Stream::events() const { return EPOLLIN | EPOLLOUT | EPOLLRDHUP; }

void Stream::note_events(std::uint32_t events) { note_news((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0); }

// ---- Sending

/// How many bytes of the message are on their way; what is left of its head is kept. Requires: nothing is lent, and
/// tags_ has begun the message.
std::size_t Stream::send_some(Channel channel, Parts message) {
  MessageHead head(tags_.integrity());
  head.describe(channel, message, tags_);
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
  tags_.begin();
  if (tags_.integrity() == Integrity::encrypt) {
    send_encrypted(channel, message);
  } else {
    keep_rest(message, send_some(channel, message));
  }
}

void Stream::send_encrypted(Channel channel, Parts message) {
  encrypted_.clear();
  for (const std::span<const std::byte> part : message) {
    encrypted_.insert(encrypted_.end(), part.begin(), part.end());
  }
  tags_.crypt(encrypted_);
  const std::span<const std::byte> all = encrypted_;
  keep_rest(Parts(&all, 1), send_some(channel, Parts(&all, 1)));
}

/// Of a message of which so many bytes are on their way.
void Stream::keep_rest(Parts message, std::size_t sent) {
  for (const std::span<const std::byte> part : message) {
    const std::size_t gone = std::min(sent, part.size());
    outgoing_.keep(part.subspan(gone));
    sent -= gone;
  }
}

void Stream::send_lent(Channel channel, Parts message) {
  if (tags_.integrity() == Integrity::encrypt) {
    return send(channel, message);
  }
  if (!can_send_) {
    return;
  }
  keep_lent();
  tags_.begin();
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

bool Stream::next(Channel& of, std::vector<std::byte>& message) {
  while (!incoming_.next(of, message)) {
    if (!incoming_.status() || !read_more()) {
      return false;
    }
  }
  return true;
}

/// Requires: all that was read has been taken.
bool Stream::read_more() {
  if (!may_read_ || is_at_end()) {
    return false;
  }
  const std::size_t got = read_into(incoming_.room());
  if (got == 0) {
    return false;
  }
  incoming_.note_read(got);
  return true;
}

std::size_t Stream::read_into(std::span<std::byte> room) {
  while (true) {
    const ssize_t got = ::recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got > 0) {
      // Less than was asked for is all there is, but for the end, of which the news may have come already.
      may_read_ = static_cast<std::size_t>(got) == room.size() || ends_;
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
