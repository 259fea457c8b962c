#include "transport/tcp/stream.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "transport/tcp/testing/numbers.h"

namespace ronde::transport {
namespace {

using Bytes = std::vector<std::byte>;

struct StreamPair {
  explicit StreamPair(Integrity integrity = Integrity::checksum) {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    JobKey there, back;
    there.bytes.fill(std::byte{1});
    back.bytes.fill(std::byte{2});
    a = std::make_unique<Stream>(TcpConnection{UniqueFd(sockets[0]), there, back}, 1, integrity);
    b = std::make_unique<Stream>(TcpConnection{UniqueFd(sockets[1]), back, there}, 0, integrity);
  }
  std::unique_ptr<Stream> a, b;
};

/// As the set of sockets would have told it.
bool receive(Stream& stream, Stream::Channel channel, Bytes& message) {
  stream.note_news(false);
  return stream.receive(channel, message);
}

class Protected : public testing::TestWithParam<Integrity> {};
INSTANTIATE_TEST_SUITE_P(Stream, Protected,
                         testing::Values(Integrity::off, Integrity::checksum, Integrity::mac, Integrity::encrypt));

TEST_P(Protected, MessagesOfAllSizesComeWholeAndInOrder) {
  StreamPair pair(GetParam());
  const std::vector<std::size_t> sizes = {0, 1, 3, 4, 5, 65531, 65532, 65533, 65536, 65537, 200001, 9000001, 0, 7};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Bytes whole = random_bytes(sizes[i], static_cast<unsigned>(i));
    const std::size_t middle = sizes[i] / 3;
    const std::span<const std::byte> parts[] = {std::span(whole).first(middle), std::span(whole).subspan(middle)};
    if (i % 2 == 0) {
      pair.a->send(0, parts);
    } else {
      pair.a->send_lent(0, parts);
      pair.a->keep_lent();
    }
  }
  Bytes message;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    while (!receive(*pair.b, 0, message)) {
      ASSERT_TRUE(pair.b->status()) << pair.b->status().message();
      pair.a->flush();
    }
    EXPECT_TRUE(message == random_bytes(sizes[i], static_cast<unsigned>(i))) << "message " << i << ", " << sizes[i];
  }
  EXPECT_TRUE(pair.a->flush());
  EXPECT_FALSE(receive(*pair.b, 0, message));
  EXPECT_FALSE(pair.b->has_ended(0));
}

/// What one end has written, with one bit of it changed, as the other end finds it.
Status status_after_a_flipped_bit(Integrity integrity, std::size_t size, std::size_t at) {
  int first[2];
  int second[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, first), 0);
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, second), 0);
  Stream sender{TcpConnection{UniqueFd(first[0])}, 1, integrity};
  const UniqueFd tap{first[1]}, injector{second[0]};
  Stream receiver{TcpConnection{UniqueFd(second[1])}, 0, integrity};
  sender.send(0, random_bytes(size, 1));
  std::vector<char> wire(size + 100);
  const ssize_t got = ::recv(tap.get(), wire.data(), wire.size(), 0);
  EXPECT_GT(got, static_cast<ssize_t>(at));
  wire[at] = static_cast<char>(wire[at] ^ 4);
  EXPECT_EQ(::send(injector.get(), wire.data(), static_cast<std::size_t>(got), 0), got);
  Bytes message;
  EXPECT_FALSE(receive(receiver, 0, message) && integrity != Integrity::off);
  return receiver.status();
}

TEST_P(Protected, AChangedBitAnywhereIsNoticed) {
  if (GetParam() == Integrity::off) {
    EXPECT_TRUE(status_after_a_flipped_bit(Integrity::off, 100, 50));
    return;
  }
  const std::size_t head = MessageHead(GetParam()).size();
  for (const std::size_t size : {1UL, 100UL, 50000UL}) {
    for (std::size_t at = 0; at < head + size; at += at < head + 64 ? 1 : 997) {
      const Status status = status_after_a_flipped_bit(GetParam(), size, at);
      ASSERT_FALSE(status) << "byte " << at << " of a message of " << size;
      EXPECT_NE(status.message().find("rank 0 has sent was changed on the way"), std::string::npos);
      EXPECT_EQ(status.failed_rank(), 0);
    }
  }
}

/// Somebody on the way, who has the bytes of a connection.
struct Eavesdropper {
  explicit Eavesdropper(Integrity integrity) {
    int first[2];
    int second[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, first), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, second), 0);
    JobKey there, back;
    there.bytes.fill(std::byte{1});
    back.bytes.fill(std::byte{2});
    sender = std::make_unique<Stream>(TcpConnection{UniqueFd(first[0]), there, back}, 1, integrity);
    tap.reset(first[1]);
    injector.reset(second[0]);
    receiver = std::make_unique<Stream>(TcpConnection{UniqueFd(second[1]), back, there}, 0, integrity);
  }
  std::string hear() const {
    std::string bytes(100000, ' ');
    const ssize_t got = ::recv(tap.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  static void say(const UniqueFd& to, const std::string& bytes) {
    EXPECT_EQ(::send(to.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  std::unique_ptr<Stream> sender, receiver;
  UniqueFd tap, injector;
};

TEST_P(Protected, WhatIsRepeatedLeftOutOrSentBackIsNoticedIfThereIsAKey) {
  const bool is_keyed = GetParam() == Integrity::mac || GetParam() == Integrity::encrypt;
  Bytes message;
  for (const std::string how : {"repeated", "left out", "sent back"}) {
    Eavesdropper wire(GetParam());
    wire.sender->send(0, random_bytes(100, 1));
    const std::string first = wire.hear();
    wire.sender->send(0, random_bytes(100, 2));
    const std::string second = wire.hear();
    Stream& hears = how == "sent back" ? *wire.sender : *wire.receiver;
    Eavesdropper::say(how == "sent back" ? wire.tap : wire.injector, how == "left out" ? second : first);
    EXPECT_EQ(receive(hears, 0, message), !is_keyed || how == "repeated") << how;
    if (how == "repeated") {
      Eavesdropper::say(wire.injector, first);
      EXPECT_EQ(receive(hears, 0, message), !is_keyed);
    }
    EXPECT_EQ(hears.status().is_ok(), !is_keyed);
    EXPECT_EQ(hears.status().message().find("its MAC is wrong") != std::string::npos, is_keyed);
  }
}

TEST_P(Protected, OnlyWhatIsEncryptedCannotBeRead) {
  Eavesdropper wire(GetParam());
  const std::string secret = "what ranks say to each other";
  const std::span<const std::byte> part = std::as_bytes(std::span(secret));
  wire.sender->send(0, Parts(&part, 1));
  wire.sender->send_lent(0, Parts(&part, 1));
  EXPECT_EQ(wire.hear().find(secret) == std::string::npos, GetParam() == Integrity::encrypt);
}

TEST(Stream, ChannelsDoNotWaitForEachOther) {
  StreamPair pair;
  for (unsigned i = 0; i < 100; ++i) {
    pair.a->send(i % 3 == 0 ? 1 : 0, random_bytes(i, i));
  }
  Bytes message;
  for (const Stream::Channel channel : {1U, 0U}) {
    for (unsigned i = 0; i < 100; ++i) {
      if ((i % 3 == 0 ? 1U : 0U) == channel) {
        ASSERT_TRUE(receive(*pair.b, channel, message));
        EXPECT_TRUE(message == random_bytes(i, i));
      }
    }
    EXPECT_FALSE(receive(*pair.b, channel, message));
  }
}

TEST(Stream, BothSidesMaySendMoreThanThereIsRoomFor) {
  StreamPair pair;
  std::mt19937 random(7);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 300; ++i) {
    sizes.push_back(std::uniform_int_distribution<std::size_t>(0, i % 10 == 0 ? 300000 : 3000)(random));
    pair.a->send(0, random_bytes(sizes.back(), static_cast<unsigned>(i)));
    pair.b->send(0, random_bytes(sizes.back(), static_cast<unsigned>(i)));
  }
  EXPECT_FALSE(pair.a->flush());
  Stream* const ends[] = {pair.a.get(), pair.b.get()};
  std::size_t received[] = {0, 0};
  Bytes message;
  while (received[0] < sizes.size() || received[1] < sizes.size()) {
    for (const std::size_t end : {0U, 1U}) {
      ends[end]->flush();
      while (receive(*ends[end], 0, message)) {
        ASSERT_TRUE(message == random_bytes(sizes[received[end]], static_cast<unsigned>(received[end])));
        ++received[end];
      }
      ASSERT_TRUE(ends[end]->status());
    }
  }
}

TEST(Stream, WhatIsLentIsReadUntilThereIsRoomForIt) {
  StreamPair pair(Integrity::off);  // a checksum is of the bytes as they were
  for (const bool is_kept : {false, true}) {
    Bytes first = random_bytes(40, 1);
    Bytes second = random_bytes(3'000'000, 2);
    Bytes third = random_bytes(70'000, 3);
    Bytes all = first;
    all.insert(all.end(), second.begin(), second.end());
    all.insert(all.end(), third.begin(), third.end());
    const std::span<const std::byte> parts[] = {first, second, third};
    pair.a->send_lent(0, parts);
    first.assign(first.size(), std::byte{0});  // the first part is never lent
    EXPECT_FALSE(pair.a->flush());
    third.back() ^= std::byte{1};
    all.back() = third.back();
    if (is_kept) {
      pair.a->send(1, random_bytes(5, 4));  // it goes behind
      second.assign(second.size(), std::byte{0});
      third.assign(third.size(), std::byte{0});
    }
    Bytes message;
    while (!receive(*pair.b, 0, message)) {
      ASSERT_TRUE(pair.b->status());
      pair.a->flush();
    }
    EXPECT_TRUE(message == all) << is_kept;
    EXPECT_TRUE(pair.a->flush());
    EXPECT_EQ(receive(*pair.b, 1, message), is_kept);
  }
}

TEST(Stream, MemoryOfMessagesIsUsedAgain) {
  StreamPair pair;
  Bytes message;
  const auto transfer = [&](std::size_t bytes, unsigned seed) {
    pair.a->send(0, random_bytes(bytes, seed));
    while (!receive(*pair.b, 0, message)) {
      pair.a->flush();
    }
    EXPECT_TRUE(message == random_bytes(bytes, seed)) << bytes;
  };
  transfer(200'000, 1);
  const std::byte* const place = message.data();
  pair.b->recycle(std::exchange(message, {}));
  transfer(100'000, 2);  // it has begun in the memory of before
  pair.b->recycle(std::exchange(message, {}));
  transfer(60'000, 3);
  EXPECT_EQ(message.data(), place);
  transfer(300'000, 4);
  transfer(10, 5);
}

TEST(Stream, WhatNobodyWantsIsThrownAway) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  Stream a{TcpConnection{UniqueFd(sockets[0])}, 1, Integrity::checksum};
  std::vector<Stream::Channel> seen;
  Stream b{TcpConnection{UniqueFd(sockets[1])}, 0};
  b.on_arrival([&](Stream::Channel channel) {
    seen.push_back(channel);
    return channel != 7;
  });
  for (const Stream::Channel channel : {7U, 1U << 31U, 7U, 9U}) {
    a.send(channel, random_bytes(10, static_cast<unsigned>(channel)));
  }
  Bytes message;
  EXPECT_TRUE(receive(b, 9, message));
  EXPECT_EQ(seen, (std::vector<Stream::Channel>{7, 1U << 31U, 7})) << "what is asked for is not kept";
  EXPECT_FALSE(b.has(7));
  EXPECT_TRUE(b.has(1U << 31U));
  b.forget(1U << 31U);
  EXPECT_FALSE(receive(b, 1U << 31U, message));
}

TEST(Stream, NothingIsAskedOfTheKernelWithoutNews) {
  StreamPair pair;
  Bytes message;
  EXPECT_FALSE(pair.b->receive(0, message));  // a new one asks once
  pair.a->send(0, random_bytes(5, 1));
  EXPECT_FALSE(pair.b->receive(0, message));
  pair.b->note_news(false);
  EXPECT_TRUE(pair.b->receive(0, message));
}

TEST(Stream, WhoIsIdleNeedNotBeAsked) {
  StreamPair pair;
  Bytes message;
  EXPECT_FALSE(pair.b->is_idle()) << "nobody has looked yet";
  EXPECT_FALSE(receive(*pair.b, 0, message));
  EXPECT_TRUE(pair.b->is_idle());
  for (const Stream::Channel channel : {0, 0, 1}) {
    pair.a->send(channel, Bytes(10));
  }
  EXPECT_TRUE(pair.b->is_idle()) << "it has not heard of them";
  pair.b->note_news(false);
  EXPECT_FALSE(pair.b->is_idle());
  EXPECT_TRUE(pair.b->receive(0, message));
  EXPECT_FALSE(pair.b->is_idle()) << "another has been read with it";
  EXPECT_TRUE(pair.b->receive(0, message));
  EXPECT_FALSE(pair.b->receive(0, message));
  EXPECT_FALSE(pair.b->is_idle()) << "one is kept for another channel";
  EXPECT_TRUE(pair.b->receive(1, message));
  EXPECT_TRUE(pair.b->is_idle());

  EXPECT_FALSE(receive(*pair.a, 0, message));
  ASSERT_TRUE(pair.a->is_idle());
  pair.a->send(0, Bytes(std::size_t{16} << 20));
  EXPECT_FALSE(pair.a->is_idle()) << "most of it had no room";
  while (!receive(*pair.b, 0, message)) {
    pair.a->flush();
  }
  EXPECT_TRUE(pair.a->flush() && pair.a->is_idle());
}

TEST(Stream, WhatHasEndedOrIsDamagedIsNeverIdle) {
  StreamPair ended;
  Bytes message;
  EXPECT_FALSE(receive(*ended.b, 0, message));
  ended.a.reset();
  ended.b->note_news(true);
  EXPECT_FALSE(ended.b->is_idle());
  EXPECT_FALSE(ended.b->receive(0, message));
  EXPECT_TRUE(ended.b->has_ended(0) && !ended.b->is_idle());

  StreamPair broken;
  broken.a->break_off();
  EXPECT_FALSE(broken.a->receive(0, message) || broken.a->is_idle());

  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  const UniqueFd injector{sockets[0]};
  Stream damaged{TcpConnection{UniqueFd(sockets[1])}, 0};
  EXPECT_FALSE(receive(damaged, 0, message));
  ASSERT_TRUE(damaged.is_idle());
  const char nonsense[100] = {};
  ASSERT_EQ(::send(injector.get(), nonsense, sizeof nonsense, 0), 100);
  EXPECT_FALSE(receive(damaged, 0, message));
  EXPECT_FALSE(damaged.status() || damaged.is_idle());
}

TEST(Stream, TheEndIsToldBehindAllThatWasSent) {
  StreamPair pair;
  pair.a->send(1, random_bytes(10, 1));
  pair.a->send(0, random_bytes(200000, 2));
  pair.a->send(1, random_bytes(0, 3));
  Bytes message;
  std::vector<Bytes> of_one;
  pair.a->finish_sending();
  for (int i = 0; i < 100 && !pair.b->has_ended(0); ++i) {
    pair.b->note_news(true);
    if (pair.b->receive(0, message)) {
      EXPECT_TRUE(message == random_bytes(200000, 2));
    }
    pair.a->finish_sending();
  }
  EXPECT_TRUE(pair.b->has_ended(0));
  EXPECT_FALSE(pair.b->has_ended(1));
  EXPECT_TRUE(pair.b->receive(1, message));
  EXPECT_TRUE(message == random_bytes(10, 1));
  EXPECT_FALSE(pair.b->has_ended(1));
  EXPECT_TRUE(pair.b->receive(1, message));
  EXPECT_TRUE(message.empty());
  EXPECT_FALSE(pair.b->receive(1, message));
  EXPECT_TRUE(pair.b->has_ended(1));
  EXPECT_TRUE(pair.b->status());
}

TEST(Stream, AForkedChildDoesNotKeepItOpen) {
  StreamPair pair;
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  pair.a.reset();  // its process has died, say
  pollfd end{pair.b->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 20000), 1) << "the child has the connection";
  Bytes message;
  pair.b->note_news(true);
  EXPECT_FALSE(pair.b->receive(0, message));
  EXPECT_TRUE(pair.b->has_ended(0));
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Stream, AMessageCutShortIsTheEndAndNoMessage) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  Stream stream{TcpConnection{UniqueFd(sockets[0])}, 3, Integrity::off};
  {
    const UniqueFd peer{sockets[1]};
    const std::uint32_t head[3] = {100, 0, 0};
    ASSERT_EQ(::send(peer.get(), head, sizeof head, 0), 12);
    ASSERT_EQ(::send(peer.get(), "short", 5, 0), 5);
  }
  Bytes message;
  stream.note_news(true);
  EXPECT_FALSE(stream.receive(0, message));
  EXPECT_TRUE(stream.has_ended(0));
  stream.send(0, random_bytes(4, 4));  // goes nowhere, and raises no signal
  EXPECT_TRUE(stream.flush());
}

TEST(Stream, ALengthThatCannotBeIsDamage) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  Stream stream{TcpConnection{UniqueFd(sockets[0])}, 3, Integrity::off};
  const UniqueFd peer{sockets[1]};
  const std::uint32_t head[3] = {0x7fffffff, 0, 0};
  ASSERT_EQ(::send(peer.get(), head, sizeof head, 0), 12);
  Bytes message;
  EXPECT_FALSE(stream.receive(0, message));
  EXPECT_EQ(stream.status().code(), Code::internal);
  EXPECT_EQ(stream.status().failed_rank(), 3);
  EXPECT_NE(stream.status().message().find("rank 3 has announced a message of 2147483647 bytes"), std::string::npos)
      << stream.status().message();
}

}  // namespace
}  // namespace ronde::transport
