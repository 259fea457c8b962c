#include "store/packet_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "store/store_client.h"
#include "store/tcp_address.h"
#include "store/testing/packets.h"

namespace ronde::store {
namespace {

constexpr std::size_t kLimit = 100000;

std::pair<UniqueFd, UniqueFd> stream_pair() {
  int sockets[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  return {UniqueFd(sockets[0]), UniqueFd(sockets[1])};
}

struct Ends {
  explicit Ends(bool sealed) {
    auto [one, other] = stream_pair();
    a = PacketSocket(std::move(one));
    b = PacketSocket(std::move(other));
    if (sealed) {
      a.seal(key_of(1), key_of(2));
      b.seal(key_of(2), key_of(1));
    }
  }
  PacketSocket a, b;
};

class Streams : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(PacketSocket, Streams, testing::Bool());

TEST_P(Streams, KeepPacketsApart) {
  Ends ends(GetParam());
  EXPECT_FALSE(ends.a.is_of_this_host());
  const std::vector<std::size_t> sizes = {1, 2, 4095, 4096, 4097, 0, kLimit};
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : sizes) {
      ASSERT_EQ(ends.a.send(bytes_of(size, round)), PacketResult::done);
      Packet packet;
      PacketResult result = PacketResult::again;
      while ((result = ends.b.receive(kLimit, 0, packet)) == PacketResult::again) {
        ends.a.flush();
      }
      ASSERT_EQ(result, PacketResult::done);
      EXPECT_TRUE(packet.bytes == bytes_of(size, round)) << size;
    }
  }
  Packet packet;
  EXPECT_EQ(ends.b.receive(kLimit, 0, packet), PacketResult::again);
  ends.a.reset();
  EXPECT_EQ(ends.b.receive(kLimit, 0, packet), PacketResult::closed);
}

TEST_P(Streams, SayWhenThereIsNoRoom) {
  Ends ends(GetParam());
  int sent = 0;
  while (ends.a.send(bytes_of(kLimit, sent)) == PacketResult::done) {
    ASSERT_LT(++sent, 1000);
  }
  EXPECT_EQ(ends.a.flush(), PacketResult::again);
  Packet packet;
  for (int received = 0; received < sent;) {
    const PacketResult result = ends.b.receive(kLimit, 0, packet);
    if (result == PacketResult::done) {
      EXPECT_TRUE(packet.bytes == bytes_of(kLimit, received++));
    } else {
      ASSERT_EQ(result, PacketResult::again);
      ends.a.flush();
    }
  }
  EXPECT_EQ(ends.a.flush(), PacketResult::done);
}

TEST_P(Streams, RefuseLongerPacketsThanAreAllowed) {
  Ends ends(GetParam());
  ASSERT_EQ(ends.a.send(bytes_of(41, 1)), PacketResult::done);
  Packet packet;
  EXPECT_EQ(ends.b.receive(40, 0, packet), PacketResult::bad);
}

TEST(PacketSocket, SealedPacketsCannotBeReadChangedRepeatedOrLeftOut) {
  const auto sealed_bytes = [](int count) {
    auto [one, other] = stream_pair();
    PacketSocket sender(std::move(one));
    sender.seal(key_of(1), key_of(2));
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(sender.send(bytes_of(10, i)), PacketResult::done);
    }
    std::vector<std::byte> wire(4096);
    wire.resize(static_cast<std::size_t>(::recv(other.get(), wire.data(), wire.size(), MSG_DONTWAIT)));
    return wire;
  };
  const auto received = [](const std::vector<std::byte>& wire) {
    auto [one, other] = stream_pair();
    EXPECT_EQ(::send(one.get(), wire.data(), wire.size(), 0), static_cast<ssize_t>(wire.size()));
    PacketSocket receiver(std::move(other));
    receiver.seal(key_of(2), key_of(1));
    Packet packet;
    int count = 0;
    PacketResult result = PacketResult::done;
    while ((result = receiver.receive(100, 0, packet)) == PacketResult::done) {
      EXPECT_TRUE(packet.bytes == bytes_of(10, count));
      ++count;
    }
    return std::pair(count, result);
  };
  const std::vector<std::byte> wire = sealed_bytes(2);
  const std::size_t one = wire.size() / 2;
  EXPECT_EQ(received(wire), std::pair(2, PacketResult::again));
  for (std::size_t i = 0; i < one; ++i) {
    std::vector<std::byte> changed = wire;
    changed[i] ^= std::byte{1};
    EXPECT_EQ(received(changed).first, 0) << i;
  }
  const std::vector<std::byte> first(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(one));
  std::vector<std::byte> repeated = first;
  repeated.insert(repeated.end(), first.begin(), first.end());
  EXPECT_EQ(received(repeated), std::pair(1, PacketResult::bad));
  EXPECT_EQ(received({wire.begin() + static_cast<std::ptrdiff_t>(one), wire.end()}), std::pair(0, PacketResult::bad));
  const std::vector<std::byte> clear = bytes_of(10, 0);
  EXPECT_EQ(std::search(wire.begin(), wire.end(), clear.begin(), clear.end()), wire.end());
}

TEST(TcpAddress, IsAHostAndAPort) {
  const auto is = [](const std::string& text, const std::string& host, int port) {
    const Result<HostAndPort> parsed = parse_host_and_port(text);
    return parsed && parsed.value().host == host && parsed.value().port == port;
  };
  EXPECT_TRUE(is("node1:29500", "node1", 29500));
  EXPECT_TRUE(is("[fe80::1]:5", "fe80::1", 5));
  EXPECT_TRUE(is("::1:65535", "::1", 65535));
  for (const char* const wrong : {"", "node1", "node1:", ":5", "node1:0", "node1:65536", "node1:5x", "node1:-1"}) {
    EXPECT_EQ(parse_host_and_port(wrong).status().code(), Code::invalid_argument) << wrong;
  }
}

TEST(StoreClient, WaitsForAServerOnTcpAndSaysWhoIsToServe) {
  const UniqueFd listener = listen_tcp({"127.0.0.1", 0}).value();
  const std::string nobody = "tcp:127.0.0.1:1";
  const Status status = connect_store(nobody, key_of(1), 200 * kMillisecond).status();
  EXPECT_EQ(status.code(), Code::timed_out);
  EXPECT_THAT(status.message(),
              testing::HasSubstr("nobody serves the job's store at tcp:127.0.0.1:1 (Connection refused). Rank 0 does"));
  EXPECT_EQ(connect_store("tcp:no.such.host.invalid:5", key_of(1), kSecond).status().code(), Code::invalid_argument);
  EXPECT_THAT(connect_store("file:/x", key_of(1), kSecond).status().message(), testing::HasSubstr("expected unix:"));
}

}  // namespace
}  // namespace ronde::store
