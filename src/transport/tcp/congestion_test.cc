#include "transport/tcp/congestion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "transport/tcp/testing/own_connection.h"

namespace ronde::transport {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

/// A connection over loopback, over which something has come back.
class Congestion : public testing::Test {
 protected:
  void SetUp() override {
    char byte = 1;
    ASSERT_EQ(::send(connection_.near.get(), &byte, 1, 0), 1);
    ASSERT_EQ(::recv(connection_.far.get(), &byte, 1, 0), 1);
    ASSERT_EQ(::send(connection_.far.get(), &byte, 1, 0), 1);
    ASSERT_EQ(::recv(connection_.near.get(), &byte, 1, 0), 1);
  }
  std::string name() const {
    std::array<char, 16> text{};
    socklen_t length = text.size();
    EXPECT_EQ(::getsockopt(connection_.near.get(), IPPROTO_TCP, TCP_CONGESTION, text.data(), &length), 0);
    return text.data();
  }
  bool set(const std::string& name) {
    const auto bytes = static_cast<socklen_t>(name.size());
    return ::setsockopt(connection_.near.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), bytes) == 0;
  }

  CongestionControl control_;
  OwnConnection connection_;
};

TEST_F(Congestion, OfANearPeerIsNotBbr) {
  const bool has_bbr = set("bbr");  // not every system offers it; without it nothing is to be changed
  const std::string before = name();
  ASSERT_TRUE(control_.choose(connection_.near.get(), ""));
  if (has_bbr) {
    EXPECT_THAT(name(), AnyOf("cubic", "reno"));
  } else {
    EXPECT_EQ(name(), before);
  }
}

TEST_F(Congestion, IsKeptAsLongAsNothingIsLost) {
  ASSERT_TRUE(control_.choose(connection_.near.get(), ""));
  const std::string chosen = name();
  control_.look(connection_.near.get());
  EXPECT_EQ(name(), chosen);
}

TEST_F(Congestion, IsKeptWhereItIsAnother) {
  ASSERT_TRUE(set("reno"));
  ASSERT_TRUE(control_.choose(connection_.near.get(), ""));
  EXPECT_EQ(name(), "reno");
}

TEST_F(Congestion, IsTheSystemsOrTheOneThatIsAskedFor) {
  const std::string before = name();
  ASSERT_TRUE(control_.choose(connection_.near.get(), CongestionControl::kSystems));
  EXPECT_EQ(name(), before);
  ASSERT_TRUE(control_.choose(connection_.near.get(), "reno"));
  EXPECT_EQ(name(), "reno");
}

TEST_F(Congestion, ThatIsNotThereIsAnErrorThatSaysWhatIs) {
  const Status status = control_.choose(connection_.near.get(), "carrier-pigeon");
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr("RONDE_TCP_CONGESTION is 'carrier-pigeon'"));
  EXPECT_THAT(status.message(), HasSubstr("reno"));
}

}  // namespace
}  // namespace ronde::transport
