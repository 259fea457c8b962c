#include "transport/tcp/greeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

namespace ronde::transport {
namespace {

struct Ends {
  Ends() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    caller.reset(sockets[0]);
    listener.reset(sockets[1]);
  }
  UniqueFd caller, listener;
};

TcpMeeting meeting_of(int rank, int key = 1, const std::string& scope = "job") {
  TcpMeeting meeting{{}, scope, rank, 4};
  meeting.key.bytes.fill(static_cast<std::byte>(key));
  return meeting;
}

/// How both end, if each goes on as long as it can.
std::pair<Greeted, Greeted> greet(Greeting& caller, Greeting& listener) {
  Greeted callers = Greeted::not_yet;
  Greeted listeners = Greeted::not_yet;
  for (int i = 0; i < 4; ++i) {
    callers = callers == Greeted::not_yet ? caller.advance() : callers;
    listeners = listeners == Greeted::not_yet ? listener.advance() : listeners;
  }
  return {callers, listeners};
}

std::pair<Greeted, Greeted> greet(const TcpMeeting& caller, int to, const TcpMeeting& listener) {
  Ends ends;
  Greeting call = Greeting::to(std::move(ends.caller), caller, to);
  Greeting answer = Greeting::from_anybody(std::move(ends.listener), listener);
  return greet(call, answer);
}

TEST(Greeting, BothProveWhoTheyAre) {
  Ends ends;
  const TcpMeeting two = meeting_of(2);
  const TcpMeeting one = meeting_of(1);
  Greeting call = Greeting::to(std::move(ends.caller), two, 1);
  Greeting answer = Greeting::from_anybody(std::move(ends.listener), one);
  EXPECT_EQ(greet(call, answer), std::pair(Greeted::done, Greeted::done));
  EXPECT_EQ(call.peer(), 1);
  EXPECT_EQ(answer.peer(), 2);
  // Nothing of what follows was read.
  const TcpConnection callers = call.take();
  const TcpConnection listeners = answer.take();
  ASSERT_EQ(::send(callers.socket.get(), "next", 4, 0), 4);
  char next[8];
  EXPECT_EQ(::recv(listeners.socket.get(), next, sizeof next, MSG_DONTWAIT), 4);
  // What travels has keys, one for each way, which are no other connection's.
  EXPECT_EQ(callers.sending, listeners.receiving);
  EXPECT_EQ(callers.receiving, listeners.sending);
  EXPECT_NE(callers.sending, callers.receiving);
  Ends other;
  Greeting call_again = Greeting::to(std::move(other.caller), two, 1);
  Greeting answer_again = Greeting::from_anybody(std::move(other.listener), one);
  EXPECT_EQ(greet(call_again, answer_again), std::pair(Greeted::done, Greeted::done));
  EXPECT_NE(call_again.take().sending, callers.sending);
}

TEST(Greeting, AnotherKeyMeetingOrRankIsRefusedByTheCallerFirst) {
  EXPECT_EQ(greet(meeting_of(2), 1, meeting_of(1, 9)).first, Greeted::refused);
  EXPECT_EQ(greet(meeting_of(2), 1, meeting_of(1, 1, "another")).first, Greeted::refused);
  EXPECT_EQ(greet(meeting_of(3), 1, meeting_of(2)).first, Greeted::refused);  // it is not the rank that was called
}

TEST(Greeting, OnlyHigherRanksOfTheMeetingCall) {
  EXPECT_EQ(greet(meeting_of(1), 2, meeting_of(2)).second, Greeted::refused);
  TcpMeeting stranger = meeting_of(7);
  EXPECT_EQ(greet(stranger, 1, meeting_of(1)).second, Greeted::refused);
}

TEST(Greeting, NothingRecordedHelps) {
  // All that an honest caller has sent, sent again on another connection.
  Ends honest;
  const TcpMeeting two = meeting_of(2);
  const TcpMeeting one = meeting_of(1);
  Ends wire;  // between the two, so that it can be read
  Greeting call = Greeting::to(std::move(honest.caller), two, 1);
  Greeting answer = Greeting::from_anybody(std::move(wire.listener), one);
  std::vector<std::byte> recorded;
  for (int i = 0; i < 4; ++i) {
    call.advance();
    std::byte bytes[256];
    const ssize_t sent = ::recv(honest.listener.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (sent > 0) {
      recorded.insert(recorded.end(), bytes, bytes + sent);
      ASSERT_EQ(::send(wire.caller.get(), bytes, static_cast<std::size_t>(sent), 0), sent);
    }
    answer.advance();
    const ssize_t answered = ::recv(wire.caller.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (answered > 0) {
      ASSERT_EQ(::send(honest.listener.get(), bytes, static_cast<std::size_t>(answered), 0), answered);
    }
  }
  ASSERT_EQ(answer.advance(), Greeted::done);
  Ends again;
  Greeting second = Greeting::from_anybody(std::move(again.listener), one);
  ASSERT_EQ(::send(again.caller.get(), recorded.data(), recorded.size(), 0), static_cast<ssize_t>(recorded.size()));
  EXPECT_EQ(second.advance(), Greeted::refused);
}

TEST(Greeting, StrangersAreRefusedWhateverTheySend) {
  std::mt19937 random(3);
  const TcpMeeting one = meeting_of(1);
  for (int round = 0; round < 500; ++round) {
    Ends ends;
    Greeting answer = Greeting::from_anybody(std::move(ends.listener), one);
    std::vector<unsigned char> bytes(std::uniform_int_distribution<std::size_t>(0, 300)(random));
    for (unsigned char& each : bytes) {
      each = static_cast<unsigned char>(random());
    }
    if (round % 3 == 0 && bytes.size() >= 44) {  // a good beginning
      std::memcpy(bytes.data(), "RONDE-T1", 8);
      const std::uint32_t rank = 2;
      std::memcpy(bytes.data() + 40, &rank, 4);
    }
    ASSERT_EQ(::send(ends.caller.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    Greeted how = answer.advance();
    if (how == Greeted::not_yet) {
      ends.caller.reset();
      how = answer.advance();
    }
    EXPECT_EQ(how, Greeted::refused) << round;
  }
}

}  // namespace
}  // namespace ronde::transport
