#include "transport/tcp/silence.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <vector>

#include "base/unique_fd.h"

namespace ronde::transport {
namespace {

constexpr Nanoseconds kStart = 1000 * kSecond;

Owed asked(Nanoseconds heard_before) { return {true, true, kSecond, heard_before}; }

TEST(Silence, CountsFromWhenSomethingIsOwed) {
  Silence silence;
  // Nothing came for an hour, but nothing was asked either.
  EXPECT_EQ(silence.look({false, false, 0, 3600 * kSecond}, kStart), 0);
  EXPECT_EQ(silence.look(asked(3600 * kSecond), kStart + kSecond), 0);
  EXPECT_EQ(silence.look(asked(3601 * kSecond), kStart + 2 * kSecond), kSecond);
  EXPECT_EQ(silence.look(asked(3606 * kSecond), kStart + 7 * kSecond), 6 * kSecond);
}

TEST(Silence, ASignOfLifeEndsIt) {
  Silence silence;
  EXPECT_EQ(silence.look(asked(0), kStart), 0);
  EXPECT_EQ(silence.look(asked(5 * kSecond), kStart + 5 * kSecond), 5 * kSecond);
  // More is owed already, but half a second ago something came.
  EXPECT_EQ(silence.look(asked(kSecond / 2), kStart + 6 * kSecond), kSecond / 2);
  EXPECT_EQ(silence.look({}, kStart + 7 * kSecond), 0);
  EXPECT_EQ(silence.look(asked(8 * kSecond), kStart + 8 * kSecond), 0);
}

TEST(HostTimeout, AllOfItIsWithinTheLimit) {
  for (const Nanoseconds limit : {3 * kSecond, 10 * kSecond, 60 * kSecond}) {
    const HostTimeout timeout(limit);
    // What is owed may be seen a tick late, and so may that the silence is too long.
    EXPECT_LE(timeout.longest_silence() + 2 * timeout.tick(), limit);
  }
  EXPECT_FALSE(HostTimeout(kNever).is_ever());
}

TEST(HostTimeout, APeerIsAskedSeveralTimes) {
  const HostTimeout timeout(10 * kSecond);
  const Nanoseconds silence = timeout.longest_silence();
  EXPECT_FALSE(timeout.is_over(silence - 1, {true, true, kSecond, 0}));
  EXPECT_TRUE(timeout.is_over(silence, {true, true, kSecond, 0}));
  // Of a process that was stopped for long: it was asked again only once since.
  EXPECT_FALSE(timeout.is_over(silence, {true, true, silence, 0}));
  EXPECT_FALSE(timeout.is_over(2 * silence, {true, true, 2 * silence, 0}));
  EXPECT_TRUE(timeout.is_over(3 * silence, {true, true, 2 * silence, 0}));
}

/// A connection of this host with itself; the other end's process reads nothing.
struct Connection {
  Connection() {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    near.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(near.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    far.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  UniqueFd near, far;
};

/// Sends until nothing is taken any more.
void fill(int socket) {
  const std::vector<char> bytes(1 << 20);
  pollfd room{socket, POLLOUT, 0};
  while (::poll(&room, 1, 50) == 1) {
    ASSERT_GT(::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT), 0);
  }
}

TEST(OwedBy, NothingIsUnderWayInAnIdleConnection) {
  const Connection connection;
  EXPECT_FALSE(owed_by(connection.near.get()).under_way);
  EXPECT_FALSE(owed_by(connection.near.get()).is_asked);
}

/// The kernel answers for a process that does not read.
TEST(OwedBy, AProcessThatDoesNotReadIsNotSilent) {
  const Connection connection;
  const HostTimeout timeout(3 * kSecond);
  timeout.set_up(connection.near.get());
  fill(connection.near.get());
  Silence silence;
  const RealClock clock;
  bool was_asked = false;
  for (const Nanoseconds end = clock.now() + timeout.limit(); clock.now() < end;) {
    const Owed owed = owed_by(connection.near.get());
    EXPECT_TRUE(owed.under_way);
    was_asked |= owed.is_asked;
    ASSERT_FALSE(timeout.is_over(silence.look(owed, clock.now()), owed));
    ::poll(nullptr, 0, 10);
  }
  EXPECT_TRUE(was_asked);
}

TEST(OwedBy, WhatIsNoTcpSocketOwesNothing) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const UniqueFd one(sockets[0]), two(sockets[1]);
  ASSERT_EQ(::send(one.get(), "x", 1, 0), 1);
  EXPECT_FALSE(owed_by(one.get()).under_way);
}

}  // namespace
}  // namespace ronde::transport
