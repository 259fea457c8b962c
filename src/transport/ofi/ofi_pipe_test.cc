#include "transport/ofi/ofi_pipe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>

#include <rdma/fi_tagged.h>

#include "transport/ofi/testing/providers_here.h"
#include "transport/tcp/testing/numbers.h"

namespace ronde::transport {
namespace {

using Message = std::vector<std::byte>;
constexpr Nanoseconds kFabricLimit = 20 * kSecond;

/// Two ranks in one thread, each with an endpoint of its own.
class OfiPair {
 public:
  struct End {
    std::shared_ptr<OfiEndpoint> endpoint;
    std::unique_ptr<OfiPipe> pipe;
    int socket = -1;
  };

  explicit OfiPair(const OfiOptions& fabric, Integrity integrity = Integrity::checksum) {
    const Result<ofi::OfiLibrary> library = ofi::OfiLibrary::open();
    for (End& end : ends) {
      const FabricOptions options{fabric.provider, "127.0.0.1", 0, fabric.may_wait};
      Result<std::shared_ptr<OfiEndpoint>> opened = OfiEndpoint::open(library.value(), options, 1, 1);
      EXPECT_TRUE(opened) << opened.status().message();
      end.endpoint = *opened;
    }
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    JobKey there, back;
    there.bytes.fill(std::byte{1});
    back.bytes.fill(std::byte{2});
    for (int i = 0; i < 2; ++i) {
      const auto address = ends[i].endpoint->insert(ends[1 - i].endpoint->address());
      EXPECT_TRUE(address) << address.status().message();
      ends[i].socket = sockets[i];
      ends[i].pipe = std::make_unique<OfiPipe>(
          TcpConnection{UniqueFd(sockets[i]), i == 0 ? there : back, i == 0 ? back : there},
          OfiPipe::Peer{1 - i, address.value(), !fabric.may_wait}, integrity, ends[i].endpoint);
      EXPECT_TRUE(ends[i].pipe->status());
    }
    const bool met = step_until([this] {
      bool all = true;
      for (End& end : ends) {
        all = end.pipe->greet() && end.pipe->has_heard() && end.pipe->is_quiet() && all;
      }
      return all;
    });
    EXPECT_TRUE(met);
  }

  OfiPipe& a() { return *ends[0].pipe; }
  OfiPipe& b() { return *ends[1].pipe; }

  void step() {
    for (End& end : ends) {
      if (end.pipe) {
        end.pipe->note_events(0);  // as if there were news; the end shows by reading
        end.pipe->flush();
      }
      end.endpoint->note_events();
      end.endpoint->look();
    }
  }
  /// Without sleeping: what wakes whom, the tests of meetings see.
  bool step_until(const std::function<bool()>& done) {
    const RealClock clock;
    const Nanoseconds deadline = clock.now() + kFabricLimit;
    while (!done()) {
      if (clock.now() > deadline) {
        return false;
      }
      step();
    }
    return true;
  }
  bool receive(OfiPipe& pipe, Message& message) {
    return step_until([&] { return pipe.receive(0, message) || !pipe.status() || pipe.has_ended(0); }) &&
           pipe.status().is_ok() && !pipe.has_ended(0);
  }

  End ends[2];
};

class OverFabric : public testing::TestWithParam<OfiOptions> {
 protected:
  void SetUp() override {
    if (const std::string why = missing_here(GetParam()); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(OfiPipe, OverFabric, testing::ValuesIn(tested_fabrics()),
                         [](const auto& each) { return name_of(each.param); });

TEST_P(OverFabric, MessagesOfAllSizesComeWholeAndInOrder) {
  for (const Integrity integrity : {Integrity::off, Integrity::checksum, Integrity::mac, Integrity::encrypt}) {
    OfiPair pair(GetParam(), integrity);
    const std::vector<std::size_t> sizes = {0, 1, 65495, 65496, 65497, 65536, 200001, 3000001, 0, 7};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Message whole = random_bytes(sizes[i], static_cast<unsigned>(i));
      const std::span<const std::byte> parts[] = {std::span(whole).first(sizes[i] / 3),
                                                  std::span(whole).subspan(sizes[i] / 3)};
      if (i % 2 == 0) {
        pair.a().send(0, Parts(parts));
      } else {
        pair.a().send_lent(0, parts);
        pair.a().keep_lent();
      }
      pair.b().send(0, whole);
    }
    Message message;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (OfiPipe* const end : {&pair.b(), &pair.a()}) {
        ASSERT_TRUE(pair.receive(*end, message)) << "message " << i << ": " << end->status().message();
        EXPECT_TRUE(message == random_bytes(sizes[i], static_cast<unsigned>(i))) << "message " << i;
      }
    }
    EXPECT_TRUE(pair.step_until([&] { return pair.a().flush(); }));
    EXPECT_EQ(pair.ends[0].endpoint->fabric().registrations(), 1) << "the memory of all buffers";
    EXPECT_EQ(pair.ends[1].endpoint->strangers(), 0u);
  }
}

TEST_P(OverFabric, WhoDoesNotReceiveMakesNothingGrowButWhatTheSenderKeeps) {
  OfiPair pair(GetParam());
  const Message large = random_bytes(8 << 20, 3);
  const std::span<const std::byte> part = large;
  pair.a().send_lent(0, Parts(&part, 1));
  for (int i = 0; i < 300; ++i) {
    pair.step();
  }
  EXPECT_FALSE(pair.a().flush());
  EXPECT_TRUE(pair.step_until([&] { return pair.a().is_quiet() || pair.a().sent() > 0; }));
  EXPECT_EQ(pair.a().sent(), pair.ends[0].endpoint->room().width);
  Message message;
  ASSERT_TRUE(pair.receive(pair.b(), message));
  EXPECT_TRUE(message == large);
  EXPECT_TRUE(pair.step_until([&] { return pair.a().flush(); }));
}

TEST_P(OverFabric, AnEndInOrderIsSeenBehindAllThatWasSent) {
  OfiPair pair(GetParam());
  const Message large = random_bytes(3 << 20, 5);
  pair.a().send(0, large);
  pair.b().send(0, random_bytes(100000, 6));  // which nobody reads
  Message message, got;
  EXPECT_TRUE(pair.step_until([&] {
    if (pair.b().receive(0, message)) {
      got = message;
    }
    return pair.a().finish();
  }));
  EXPECT_TRUE(got == large) << "an end waits until all was taken";
  pair.ends[0].pipe.reset();
  EXPECT_TRUE(pair.step_until([&] { return pair.b().receive(0, message) || pair.b().has_ended(0); }));
  EXPECT_TRUE(pair.b().has_ended(0));
  EXPECT_EQ(pair.b().end_cause(), "");
}

TEST_P(OverFabric, AnEndWithoutAWordIsToldByTheConnection) {
  OfiPair pair(GetParam());
  Message message;
  pair.a().send(0, random_bytes(7, 1));
  ASSERT_TRUE(pair.receive(pair.b(), message));
  ::shutdown(pair.ends[0].socket, SHUT_RDWR);
  EXPECT_TRUE(pair.step_until([&] { return pair.b().receive(0, message) || pair.b().has_ended(0); }));
  EXPECT_TRUE(pair.b().has_ended(0));
  pair.b().send(0, random_bytes(7, 1));  // dropped
  EXPECT_TRUE(pair.b().flush());
}

TEST_P(OverFabric, WhatStrangersSendIsDropped) {
  OfiPair pair(GetParam());
  const Result<ofi::OfiLibrary> library = ofi::OfiLibrary::open();
  const auto stranger =
      OfiEndpoint::open(library.value(), {GetParam().provider, "127.0.0.1", 0, GetParam().may_wait}, 1, 1);
  ASSERT_TRUE(stranger);
  OfiEndpoint& end = *stranger.value();
  const auto to = end.insert(pair.ends[1].endpoint->address());
  ASSERT_TRUE(to);
  // Nothing, a fragment of nobody, and more than any buffer takes.
  const Message nothing(1), small(100), large(200000);
  int sent = 0;
  const std::vector<const Message*> all = {&nothing, &small, &large};
  std::vector<fi_context2> contexts(all.size());
  ASSERT_TRUE(pair.step_until([&] {
    if (static_cast<std::size_t>(sent) < all.size()) {
      const Message& next = *all[static_cast<std::size_t>(sent)];
      sent += ::fi_tsend(end.fabric().endpoint(), next.data(), next.size(), nullptr, to.value(), 12345,
                         &contexts[static_cast<std::size_t>(sent)]) == 0;
    }
    fi_cq_tagged_entry entry;
    ::fi_cq_read(end.fabric().completions(), &entry, 1);
    return pair.ends[1].endpoint->strangers() >= all.size();
  })) << sent
      << " sent, " << pair.ends[1].endpoint->strangers() << " have come";
  Message message;
  pair.a().send(0, random_bytes(100000, 1));
  ASSERT_TRUE(pair.receive(pair.b(), message));
  EXPECT_TRUE(message == random_bytes(100000, 1));
}

}  // namespace
}  // namespace ronde::transport
