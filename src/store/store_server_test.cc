// What the server and the client do with peers that misbehave. What they do for those that behave: store_test.cc.
#include "store/store_server.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "base/boot_id.h"
#include "base/random.h"
#include "store/exchange_frames.h"
#include "store/handshake.h"
#include "store/packet_socket.h"
#include "store/private_folder.h"
#include "store/store_client.h"
#include "store/unix_address.h"

namespace ronde::store {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr Nanoseconds kPatience = 60 * kSecond;

int open_descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) {
    ++count;
  }
  ::closedir(folder);
  return count;
}

/// Polls until the condition holds; false after kPatience.
bool eventually(const std::function<bool()>& condition) {
  const RealClock clock;
  const Nanoseconds deadline = clock.now() + kPatience;
  while (!condition()) {
    if (clock.now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

/// A client by hand, which says what the test wants.
class RawClient {
 public:
  explicit RawClient(const std::string& path) : socket_(UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0))) {
    const sockaddr_un address = unix_address(path).value();
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  int socket() const { return socket_.get(); }
  void send(std::span<const std::byte> bytes, std::span<const UniqueFd> descriptors = {}) {
    (void)socket_.send(bytes, descriptors);
  }
  /// The next packet; empty if the server has closed the connection.
  Bytes receive() {
    Packet packet;
    while (true) {
      const PacketResult result = socket_.receive(kMaxFrameBytes, kMaxDescriptors, packet);
      if (result != PacketResult::again) {
        return result == PacketResult::done ? packet.bytes : Bytes{};
      }
      pollfd entry{socket_.get(), POLLIN, 0};
      if (::poll(&entry, 1, static_cast<int>(kPatience / kMillisecond)) == 0) {
        ADD_FAILURE() << "the server neither answers nor closes";
        return {};
      }
    }
  }
  bool is_closed_by_server() { return receive().empty(); }

  /// The handshake; returns the proof that was sent.
  Mac shake_hands(const JobKey& key, const Nonce& nonce) {
    send(encode_hello(nonce));
    Nonce server_nonce;
    Mac server_proof;
    EXPECT_TRUE(decode_challenge(receive(), server_nonce, server_proof));
    const Mac proof = prove(key, Role::client, nonce, server_nonce);
    send(proof);
    return proof;
  }

 private:
  PacketSocket socket_;
};

class StoreServerTest : public testing::Test {
 protected:
  void start(const StoreServerOptions& options = {}) {
    server_.reset();
    ::unlink(path_.c_str());
    server_ = StoreServer::start(listen_unix(path_).value(), key_, options, listen_beside(path_)).value();
  }
  std::unique_ptr<Store> connect() {
    Result<std::unique_ptr<Store>> store = connect_store("unix:" + path_, key_, kPatience);
    EXPECT_TRUE(store) << store.status().message();
    return std::move(store).value();
  }
  /// The server still serves those who behave.
  void expect_service() { EXPECT_TRUE(connect()->exchange("alone", 0, 1, {}, kPatience)); }

  PrivateFolder folder_ = PrivateFolder::create().value();
  std::string path_ = folder_.path() + "/store";
  JobKey key_ = make_job_key().value();
  Nonce nonce_{};
  std::unique_ptr<StoreServer> server_;
};

TEST_F(StoreServerTest, SaysWhatItsClockIs) {
  start();
  RawClient client(path_);
  client.shake_hands(key_, nonce_);
  const RealClock clock;
  for (int question = 0; question < 3; ++question) {
    const Nanoseconds before = clock.now();
    client.send(encode_clock_question());
    const Result<ClockReading> reading = decode_clock_reading(client.receive());
    ASSERT_TRUE(reading);
    EXPECT_GE(reading.value().now, before);
    EXPECT_LE(reading.value().now, clock.now());
    EXPECT_EQ(reading.value().boot, boot_id());
  }
  client.send(encode_request({"alone", 0, 1, kPatience, {}}));
  EXPECT_TRUE(decode_answer(client.receive()));
}

TEST_F(StoreServerTest, AnotherKeyIsRefusedByTheClientItself) {
  start();
  const Status status = connect_store("unix:" + path_, make_job_key().value(), kPatience).status();
  EXPECT_EQ(status.code(), Code::auth_failed);
  EXPECT_THAT(status.message(), HasSubstr("has another job's key"));
  expect_service();
}

TEST_F(StoreServerTest, AnotherKeyIsRefusedByTheServer) {
  start();
  RawClient client(path_);
  client.shake_hands(make_job_key().value(), nonce_);
  client.send(encode_request({"s", 0, 1, kSecond, {}}));
  EXPECT_TRUE(client.is_closed_by_server());
  expect_service();
}

TEST_F(StoreServerTest, TheServersOwnProofSentBackIsRefused) {
  start();
  RawClient client(path_);
  client.send(encode_hello(nonce_));
  Nonce server_nonce;
  Mac server_proof;
  ASSERT_TRUE(decode_challenge(client.receive(), server_nonce, server_proof));
  client.send(server_proof);
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST_F(StoreServerTest, ARecordedHandshakeIsRefused) {
  start();
  RawClient recorded(path_);
  const Mac proof = recorded.shake_hands(key_, nonce_);
  recorded.send(encode_request({"s", 0, 1, kSecond, {}}));
  EXPECT_FALSE(recorded.is_closed_by_server());

  RawClient replay(path_);
  replay.send(encode_hello(nonce_));
  EXPECT_FALSE(replay.is_closed_by_server());
  replay.send(proof);
  EXPECT_TRUE(replay.is_closed_by_server());
}

TEST_F(StoreServerTest, GarbageBeforeTheHandshakeEndsTheConnection) {
  start();
  std::mt19937 random(7);
  for (const std::size_t size : {1u, 8u, 39u, 40u, 41u, 64u, 65536u, 150000u}) {
    RawClient client(path_);
    Bytes noise(size);
    for (std::byte& byte : noise) {
      byte = static_cast<std::byte>(random());
    }
    client.send(noise);
    EXPECT_TRUE(client.is_closed_by_server()) << size;
  }
  RawClient forward(path_);
  forward.send(encode_request({"s", 0, 1, kSecond, {}}));
  EXPECT_TRUE(forward.is_closed_by_server()) << "a request needs a handshake";
  RawClient late(path_);
  late.send(encode_hello(nonce_));
  EXPECT_FALSE(late.is_closed_by_server());
  late.send(encode_hello(nonce_));
  EXPECT_TRUE(late.is_closed_by_server());
  expect_service();
}

TEST_F(StoreServerTest, GarbageAfterTheHandshakeEndsTheConnection) {
  start();
  const Bytes request = encode_request({"s", 0, 2, kPatience, Bytes(5)});
  for (const Bytes& frame : {Bytes(1), Bytes(100), Bytes(kMaxFrameBytes + 1), Bytes(request.begin(), request.end() - 1),
                             encode_request({"s", 2, 2, kSecond, {}}), encode_value(0, {})}) {
    RawClient client(path_);
    client.shake_hands(key_, nonce_);
    client.send(frame);
    EXPECT_TRUE(client.is_closed_by_server()) << frame.size();
  }
  RawClient hasty(path_);
  hasty.shake_hands(key_, nonce_);
  hasty.send(request);
  hasty.send(request);
  EXPECT_TRUE(hasty.is_closed_by_server()) << "one request at a time";
  expect_service();
}

TEST_F(StoreServerTest, SilentStrangersAreDroppedInTime) {
  start({.handshake_limit = 50 * kMillisecond});
  RawClient silent(path_);
  RawClient halfway(path_);
  halfway.send(encode_hello(nonce_));
  EXPECT_FALSE(halfway.is_closed_by_server());
  EXPECT_TRUE(halfway.is_closed_by_server());
  EXPECT_TRUE(silent.is_closed_by_server());
}

TEST_F(StoreServerTest, AFloodOfStrangersKeepsNobodyOut) {
  start({.max_strangers = 4, .handshake_limit = kPatience});
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (int i = 0; i < 50; ++i) {
    strangers.push_back(std::make_unique<RawClient>(path_));
  }
  expect_service();
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(strangers[i]->is_closed_by_server()) << i;
  }
}

TEST_F(StoreServerTest, ConnectionsAreBounded) {
  start({.max_connections = 2});
  const std::unique_ptr<Store> first = connect();
  const std::unique_ptr<Store> second = connect();
  const Status third = connect_store("unix:" + path_, key_, kPatience).status();
  EXPECT_EQ(third.code(), Code::auth_failed) << third.message();
}

TEST_F(StoreServerTest, DescriptorsOfStrangersAndExcessOnesAreClosed) {
  start();
  const int before = open_descriptors();
  {
    std::vector<UniqueFd> one;
    one.emplace_back(::memfd_create("stranger", MFD_CLOEXEC));
    RawClient stranger(path_);
    stranger.send(encode_hello(nonce_), one);
    EXPECT_TRUE(stranger.is_closed_by_server());

    RawClient client(path_);
    client.shake_hands(key_, nonce_);
    // More than PacketSocket agrees to send.
    alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(200 * sizeof(int))> control{};
    Bytes request = encode_request({"s", 0, 1, kSecond, {}});
    iovec part{request.data(), request.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(200 * sizeof(int));
    for (std::size_t i = 0; i < 200; ++i) {
      const int fd = one[0].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
    ASSERT_GT(::sendmsg(client.socket(), &message, MSG_NOSIGNAL), 0);
    EXPECT_TRUE(client.is_closed_by_server());
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

TEST_F(StoreServerTest, NothingIsLeftAfterManyRounds) {
  start();
  const int before = open_descriptors();
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        Value value;
        value.descriptors.emplace_back(::memfd_create("value", MFD_CLOEXEC));
        EXPECT_TRUE(connect()->exchange("init", rank, 3, std::move(value), kPatience));
      });
    }
    for (std::thread& rank : ranks) {
      rank.join();
    }
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; })) << open_descriptors() << " from " << before;
}

TEST_F(StoreServerTest, WhoDisconnectsWithdrawsItsValue) {
  start();
  auto gone = std::make_unique<RawClient>(path_);
  gone->shake_hands(key_, nonce_);
  gone->send(encode_request({"s", 0, 2, kPatience, Bytes(1, std::byte{1})}));
  gone.reset();
  std::thread other([&] {
    const Result<std::vector<Value>> all = connect()->exchange("s", 1, 2, {}, kPatience);
    ASSERT_TRUE(all) << all.status().message();
    EXPECT_EQ(all.value()[0].bytes, Bytes(1, std::byte{2})) << "the value of the one that lives";
  });
  const Result<std::vector<Value>> all = connect()->exchange("s", 0, 2, {Bytes(1, std::byte{2}), {}}, kPatience);
  EXPECT_TRUE(all) << all.status().message();
  other.join();
}

TEST_F(StoreServerTest, WhoDoesNotTakeItsAnswerIsDroppedAndHoldsNobodyUp) {
  start({.answer_limit = 2 * kSecond});
  constexpr int kSize = 8;  // 512 KiB of values are more than a socket's buffer takes
  RawClient lazy(path_);
  lazy.shake_hands(key_, nonce_);
  lazy.send(encode_request({"s", 0, kSize, kPatience, Bytes(kMaxValueBytes)}));
  std::vector<std::thread> ranks;
  for (int rank = 1; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      const Result<std::vector<Value>> all =
          connect()->exchange("s", rank, kSize, {Bytes(kMaxValueBytes), {}}, kPatience);
      EXPECT_TRUE(all) << all.status().message();
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  pollfd hung_up{lazy.socket(), 0, 0};
  EXPECT_EQ(::poll(&hung_up, 1, static_cast<int>(kPatience / kMillisecond)), 1);
  EXPECT_NE(hung_up.revents & POLLHUP, 0);
  expect_service();
}

TEST_F(StoreServerTest, TheEndOfTheServerEndsEveryWait) {
  start();
  std::atomic<bool> waits = false;
  std::thread rank([&] {
    const std::unique_ptr<Store> store = connect();
    waits = true;
    const Status status = store->exchange("s", 0, 2, {}, kNever).status();
    EXPECT_EQ(status.code(), Code::system_error);
    EXPECT_THAT(status.message(), HasSubstr("has closed the connection"));
    EXPECT_EQ(store->exchange("s", 0, 2, {}, kNever).status().code(), Code::system_error);
  });
  EXPECT_TRUE(eventually([&] { return waits.load(); }));
  server_.reset();
  rank.join();
  EXPECT_EQ(connect_store("unix:" + path_, key_, kSecond).status().code(), Code::system_error) << "nobody listens";
}

TEST_F(StoreServerTest, AnImpostorIsSeenByTheClient) {
  const UniqueFd listener = listen_unix(path_).value();
  const Status silent = connect_store("unix:" + path_, key_, 50 * kMillisecond).status();
  EXPECT_EQ(silent.code(), Code::timed_out);
  EXPECT_THAT(silent.message(), HasSubstr("does not answer"));

  std::thread impostor([&] {
    pollfd entry{listener.get(), POLLIN, 0};
    for (int i = 0; i < 2; ++i) {  // the first is the connection of the silent case
      ::poll(&entry, 1, static_cast<int>(kPatience / kMillisecond));
      PacketSocket client(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      const Mac guess = prove(make_job_key().value(), Role::server, nonce_, nonce_);
      (void)client.send(encode_challenge(nonce_, guess));
    }
  });
  EXPECT_EQ(connect_store("unix:" + path_, key_, kPatience).status().code(), Code::auth_failed);
  impostor.join();
}

TEST_F(StoreServerTest, APathTooLongIsOneSentence) {
  const Status status = connect_store("unix:/tmp/" + std::string(120, 'x'), key_, kSecond).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr("1 to 107 bytes; this one has 125"));
  EXPECT_FALSE(listen_unix(""));
}

TEST_F(StoreServerTest, WhoDoesNotSeeTheFolderComesByTheAbstractName) {
  start();
  ::unlink(path_.c_str());
  expect_service();
  server_.reset();
  const Status gone = connect_store("unix:" + path_, key_, kSecond).status();
  EXPECT_EQ(gone.code(), Code::system_error);
  for (const char* part : {"No such file or directory", "If this process runs in a container"}) {
    EXPECT_THAT(gone.message(), HasSubstr(part));
  }
}

TEST_F(StoreServerTest, APathThatLeavesNoRoomForAnAbstractNameHasNone) {
  EXPECT_FALSE(listen_beside("/" + std::string(106, 'x')).is_open());
  EXPECT_TRUE(listen_beside(path_).is_open());
}

/// A child process of another user that runs what it is told to. Needs root. Made before there is any thread: in the
/// child of a process with threads a sanitizer's malloc may wait for ever.
class AnotherUser {
 public:
  explicit AnotherUser(std::vector<std::function<bool()>> bodies) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      constexpr uid_t kNobody = 65534;
      bool able = ::setresuid(kNobody, kNobody, kNobody) == 0;
      for (unsigned char which = 0; able && ::read(ends[1], &which, 1) == 1;) {
        const unsigned char answer = bodies[which]() ? 1 : 0;
        able = ::write(ends[1], &answer, 1) == 1;
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    pid_ = child;
    socket_.reset(ends[0]);
  }
  ~AnotherUser() {
    socket_.reset();
    ::waitpid(pid_, nullptr, 0);
  }

  bool run(unsigned char which) {
    unsigned char answer = 0;
    return ::write(socket_.get(), &which, 1) == 1 && ::read(socket_.get(), &answer, 1) == 1 && answer == 1;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd socket_;
};

TEST_F(StoreServerTest, AnotherUserIsRefusedWhateverItKnows) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to become another user";
  }
  AnotherUser other({
      // Has the key, but the server's socket belongs to root.
      [&] { return connect_store("unix:" + path_, key_, kPatience).status().code() == Code::auth_failed; },
      // Does not mind that, and gets no challenge.
      [&] {
        RawClient client(path_);
        client.send(encode_hello(nonce_));
        return client.is_closed_by_server();
      },
      // Needs no folder.
      [&] {
        RawClient client(abstract_name(path_));
        client.send(encode_hello(nonce_));
        return client.is_closed_by_server();
      },
  });
  start();
  EXPECT_TRUE(other.run(2));
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(path_.c_str(), 0777);
  EXPECT_TRUE(other.run(0));
  EXPECT_TRUE(other.run(1));
  expect_service();
}

}  // namespace
}  // namespace ronde::store
