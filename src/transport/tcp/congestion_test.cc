#include "transport/tcp/congestion.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "base/unique_fd.h"

namespace ronde::transport {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

/// A connection over loopback, over which something has come back.
class Congestion : public testing::Test {
 protected:
  void SetUp() override {
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    socket_.reset(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    other_.reset(::accept(listener.get(), nullptr, nullptr));
    ASSERT_TRUE(other_.is_open());
    char byte = 1;
    ASSERT_EQ(::send(socket_.get(), &byte, 1, 0), 1);
    ASSERT_EQ(::recv(other_.get(), &byte, 1, 0), 1);
    ASSERT_EQ(::send(other_.get(), &byte, 1, 0), 1);
    ASSERT_EQ(::recv(socket_.get(), &byte, 1, 0), 1);
  }
  std::string name() const {
    std::array<char, 16> text{};
    socklen_t length = text.size();
    EXPECT_EQ(::getsockopt(socket_.get(), IPPROTO_TCP, TCP_CONGESTION, text.data(), &length), 0);
    return text.data();
  }
  bool set(const std::string& name) {
    return ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) ==
           0;
  }

  CongestionControl control_;
  UniqueFd socket_;
  UniqueFd other_;
};

TEST_F(Congestion, OfANearPeerIsNotBbr) {
  const bool has_bbr = set("bbr");  // not every system offers it; without it nothing is to be changed
  const std::string before = name();
  ASSERT_TRUE(control_.choose(socket_.get(), ""));
  if (has_bbr) {
    EXPECT_THAT(name(), AnyOf("cubic", "reno"));
  } else {
    EXPECT_EQ(name(), before);
  }
}

TEST_F(Congestion, IsKeptAsLongAsNothingIsLost) {
  ASSERT_TRUE(control_.choose(socket_.get(), ""));
  const std::string chosen = name();
  control_.look(socket_.get());
  EXPECT_EQ(name(), chosen);
}

TEST_F(Congestion, IsKeptWhereItIsAnother) {
  ASSERT_TRUE(set("reno"));
  ASSERT_TRUE(control_.choose(socket_.get(), ""));
  EXPECT_EQ(name(), "reno");
}

TEST_F(Congestion, IsTheSystemsOrTheOneThatIsAskedFor) {
  const std::string before = name();
  ASSERT_TRUE(control_.choose(socket_.get(), CongestionControl::kSystems));
  EXPECT_EQ(name(), before);
  ASSERT_TRUE(control_.choose(socket_.get(), "reno"));
  EXPECT_EQ(name(), "reno");
}

TEST_F(Congestion, ThatIsNotThereIsAnErrorThatSaysWhatIs) {
  const Status status = control_.choose(socket_.get(), "carrier-pigeon");
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr("RONDE_TCP_CONGESTION is 'carrier-pigeon'"));
  EXPECT_THAT(status.message(), HasSubstr("reno"));
}

}  // namespace
}  // namespace ronde::transport
