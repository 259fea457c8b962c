#include "store/strangers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "base/log.h"
#include "store/store_client.h"
#include "store/store_server.h"

namespace ronde::store {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class StrangersTest : public testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel, int rank, const std::string& message) {
      lines_.push_back(std::to_string(rank) + ": " + message);
    });
  }
  void TearDown() override { set_log_sink({}); }

  std::vector<std::string> lines_;
};

/// True once the server has closed it.
bool says_garbage(std::uint16_t port) {
  const TcpAddress address = resolve({"127.0.0.1", port}).value().front();
  const UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::array<char, 400> garbage{'G', 'E', 'T'};
  std::array<char, 400> answer;
  return ::connect(socket.get(), address.get(), address.bytes) == 0 &&
         ::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0 &&
         ::recv(socket.get(), answer.data(), answer.size(), 0) <= 0;
}

TEST_F(StrangersTest, ThoseWithoutTheKeyAreCountedAndRanksAreNot) {
  const JobKey key = make_job_key().value();
  UniqueFd listener = listen_tcp({"127.0.0.1", 0}).value();
  const std::uint16_t port = port_of(listener.get()).value();
  const auto server = StoreServer::start(std::move(listener), key).value();
  const std::string address = "tcp:127.0.0.1:" + std::to_string(port);
  const std::uint64_t before = strangers();
  EXPECT_TRUE(connect_store(address, key, 60 * kSecond));
  EXPECT_EQ(strangers(), before);

  ASSERT_TRUE(says_garbage(port));
  EXPECT_EQ(strangers(), before + 1);  // counted before it is closed
  EXPECT_FALSE(connect_store(address, make_job_key().value(), 60 * kSecond));
}

TEST_F(StrangersTest, EachTenTimesAsManyAreTold) {
  const TcpAddress from = resolve({"::1", 4321}).value().front();
  ASSERT_LT(strangers(), 9U);  // of the tests above
  while (strangers() < 9) {
    count_stranger(from, "the door", 3);
  }
  lines_.clear();
  while (strangers() < 99) {
    count_stranger(from, "the door", 3);
  }
  count_stranger({}, "the door", 3);
  EXPECT_THAT(lines_,
              ElementsAre(AllOf(HasSubstr("3: "), HasSubstr("from ::1 port 4321 to the door"), HasSubstr("number 10;")),
                          AllOf(HasSubstr("from an unknown address"), HasSubstr("number 100;"))));
}

}  // namespace
}  // namespace ronde::store
