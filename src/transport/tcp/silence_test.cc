#include "transport/tcp/silence.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <vector>

#include "transport/tcp/testing/own_connection.h"

namespace ronde::transport {
namespace {

constexpr Nanoseconds kStart = 1000 * kSecond;

const HostTimeout kTimeout(10 * kSecond);

Owed asked(Nanoseconds heard_before, Nanoseconds asked_every = kSecond, std::optional<std::uint64_t> news = {}) {
  return {true, true, asked_every, heard_before, news};
}

/// Of a connection that is looked at once a tick.
bool vanishes(const Owed& owed) {
  Silence silence;
  return silence.look(owed, kStart, kTimeout) || silence.look(owed, kStart + kTimeout.tick(), kTimeout);
}

TEST(Silence, EndsWhereNothingComesThoughItIsAsked) {
  EXPECT_FALSE(vanishes(asked(kTimeout.longest_silence() - 1)));
  EXPECT_TRUE(vanishes(asked(kTimeout.longest_silence())));
  EXPECT_FALSE(vanishes({true, false, kSecond, 3600 * kSecond, {}})) << "nothing was asked";
}

TEST(Silence, AQuestionHasTimeToBeAnswered) {
  Silence silence;
  const Owed owed = asked(3600 * kSecond);  // as after this machine has slept
  EXPECT_FALSE(silence.look({}, kStart, kTimeout));
  EXPECT_FALSE(silence.look(owed, kStart + kSecond, kTimeout));
  EXPECT_FALSE(silence.look(owed, kStart + kSecond + kTimeout.tick() - 1, kTimeout));
  EXPECT_FALSE(silence.look({}, kStart + 2 * kSecond, kTimeout));
  EXPECT_FALSE(silence.look(owed, kStart + 3 * kSecond, kTimeout)) << "this is another question";
  EXPECT_TRUE(silence.look(owed, kStart + 4 * kSecond, kTimeout));
}

TEST(Silence, AProcessThatWasStoppedForLongIsAskedSeldom) {
  const Nanoseconds silence = kTimeout.longest_silence();
  EXPECT_FALSE(vanishes(asked(silence, silence)));
  EXPECT_FALSE(vanishes(asked(2 * silence, 2 * silence)));
  EXPECT_TRUE(vanishes(asked(3 * silence, 2 * silence)));
}

/// As of a host that hears nothing any more, and repeats what it has said.
TEST(Silence, WhatIsSaidAgainIsNoAnswer) {
  Silence silence;
  const Nanoseconds every = kTimeout.tick();
  const auto looks_until = [&](Nanoseconds end, const auto& owed_at) {
    Nanoseconds at = kStart;
    while (at < end && !silence.look(owed_at(at), at, kTimeout)) {
      at += every;
    }
    return at;
  };
  const Nanoseconds end = looks_until(kStart + 10 * kTimeout.limit(), [](auto) { return asked(0, kSecond, 7); });
  EXPECT_LE(end, kStart + kTimeout.limit());
  EXPECT_GE(end, kStart + kTimeout.longest_silence());
}

TEST(Silence, WhoSaysSomethingNewIsThere) {
  Silence silence;
  std::uint64_t news = 0;
  for (Nanoseconds at = kStart; at < kStart + 10 * kTimeout.limit(); at += kTimeout.longest_silence() / 2) {
    ASSERT_FALSE(silence.look(asked(0, kSecond, ++news), at, kTimeout));
  }
}

/// Probes of a host that hears nothing are new segments each, which the kernel here does not count as heard.
TEST(Silence, WhatTheKernelDoesNotCountAsHeardIsNoAnswer) {
  Silence silence;
  EXPECT_FALSE(silence.look(asked(kTimeout.longest_silence(), kSecond, 1), kStart, kTimeout));
  const Nanoseconds later = kTimeout.tick();
  EXPECT_TRUE(silence.look(asked(kTimeout.longest_silence() + later, kSecond, 2), kStart + later, kTimeout));
}

TEST(HostTimeout, AllOfItIsWithinTheLimit) {
  for (const Nanoseconds limit : {3 * kSecond, 10 * kSecond, 60 * kSecond}) {
    // What is asked and that it is not answered may be seen a tick late each.
    EXPECT_LE(HostTimeout(limit).longest_silence() + 2 * HostTimeout(limit).tick(), limit);
  }
  EXPECT_FALSE(HostTimeout(kNever).is_ever());
}

/// Sends until nothing is taken any more.
void fill(int socket) {
  const std::vector<char> bytes(1 << 20);
  pollfd room{socket, POLLOUT, 0};
  while (::poll(&room, 1, 50) == 1) {
    ASSERT_GT(::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT), 0);
  }
}

TEST(OwedBy, NothingIsUnderWayInAnIdleConnection) {
  const OwnConnection connection;
  EXPECT_FALSE(owed_by(connection.near.get()).under_way);
  EXPECT_FALSE(owed_by(connection.near.get()).is_asked);
}

TEST(OwedBy, WhatTheOtherEndSendsOrAcknowledgesIsNews) {
  const OwnConnection connection;
  const RealClock clock;
  const auto news = [&] { return owed_by(connection.near.get()).news; };
  const auto comes_after = [&](const std::optional<std::uint64_t>& before) {
    for (const Nanoseconds end = clock.now() + 10 * kSecond; news() == before && clock.now() < end;) {
      ::poll(nullptr, 0, 1);
    }
    return news() != before;
  };
  const auto first = news();
  ASSERT_TRUE(first.has_value()) << "the kernel is older than Linux 4.6";
  EXPECT_EQ(news(), first);
  ASSERT_EQ(::send(connection.far.get(), "x", 1, 0), 1);
  EXPECT_TRUE(comes_after(first));
  const auto second = news();
  ASSERT_EQ(::send(connection.near.get(), "x", 1, 0), 1);
  EXPECT_TRUE(comes_after(second));
}

/// The kernel answers for a process that does not read.
TEST(OwedBy, AProcessThatDoesNotReadIsNotSilent) {
  const OwnConnection connection;
  const HostTimeout timeout(3 * kSecond);
  have_kernel_watch(connection.near.get(), timeout);
  fill(connection.near.get());
  Silence silence;
  const RealClock clock;
  bool was_asked = false;
  for (const Nanoseconds end = clock.now() + timeout.limit(); clock.now() < end;) {
    const Owed owed = owed_by(connection.near.get());
    EXPECT_TRUE(owed.under_way);
    was_asked |= owed.is_asked;
    ASSERT_FALSE(silence.look(owed, clock.now(), timeout));
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
