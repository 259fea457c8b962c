#include "transport/tcp/stream.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <utility>

namespace ronde::transport {

Stream::Stream(TcpConnection connection, int peer, Integrity integrity)
    : BytePipe(peer, integrity, connection.sending, connection.receiving),
      socket_(std::move(connection.socket)),
      kept_from_children_(socket_.get()),
      congestion_(std::move(connection.congestion)) {}

std::uint32_t Stream::events() const { return EPOLLIN | EPOLLOUT | EPOLLRDHUP; }

void Stream::note_events(std::uint32_t events) { note_news((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0); }

// ---- Sending

void Stream::break_off() {
  ::shutdown(socket_.get(), SHUT_RDWR);
  may_read_ = ends_ = true;
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
      stop_sending();
      may_read_ = ends_ = true;
      return 0;
    }
  }
}

// ---- Receiving

bool Stream::read_more() {
  if (!may_read_ || is_at_end()) {
    return false;
  }
  const std::size_t got = read_into(incoming().rooms());
  if (got == 0) {
    return false;
  }
  incoming().note_read(got);
  return true;
}

std::size_t Stream::read_into(const std::array<std::span<std::byte>, 2>& rooms) {
  std::array<iovec, 2> places{{{rooms[0].data(), rooms[0].size()}, {rooms[1].data(), rooms[1].size()}}};
  msghdr message{};
  message.msg_iov = places.data();
  message.msg_iovlen = places.size();
  while (true) {
    // With one place the kernel has less to look at.
    const ssize_t got = rooms[1].empty() ? ::recv(socket_.get(), rooms[0].data(), rooms[0].size(), MSG_DONTWAIT)
                                         : ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (got > 0) {
      // Less than was asked for is all there is, but for the end, of which the news may have come already.
      may_read_ = static_cast<std::size_t>(got) == rooms[0].size() + rooms[1].size() || ends_;
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
  stop_sending();
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
  congestion_.look(socket_.get());
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
  return !can_send() || ::ioctl(socket_.get(), SIOCOUTQ, &on_its_way) != 0 || on_its_way == 0;
}

}  // namespace ronde::transport
