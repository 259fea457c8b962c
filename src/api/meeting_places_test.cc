#include "api/meeting_places.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "store/store_client.h"

namespace ronde::api {
namespace {

/// An address of this machine at which nobody listens just now.
std::string free_address() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  return "tcp:127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

/// Rank 0 of two, which meet in a store that it serves.
engine::JoinOptions meeting_at(const std::string& address) {
  engine::JoinOptions options;
  options.rank = 0;
  options.size = 2;
  options.store = address;
  options.key = std::string(64, 'a');
  return options;
}

bool can_connect(const engine::JoinOptions& options) {
  return store::connect_store(*options.store, parse_job_key(*options.key).value(), kSecond / 5).is_ok();
}

TEST(MeetingPlaces, AStoreIsServedOnceAndUntilTheEnd) {
  const engine::JoinOptions options = meeting_at(free_address());
  {
    MeetingPlaces places;
    EXPECT_FALSE(can_connect(options));
    ASSERT_TRUE(places.serve_store(options));
    EXPECT_TRUE(can_connect(options));
    EXPECT_TRUE(places.serve_store(options)) << "the next init meets in the same";
    EXPECT_FALSE(MeetingPlaces().serve_store(options)) << "the address is taken";
    EXPECT_TRUE(can_connect(options));
  }
  EXPECT_FALSE(can_connect(options));
}

TEST(MeetingPlaces, OnlyRank0Serves) {
  engine::JoinOptions options = meeting_at(free_address());
  options.rank = 1;
  MeetingPlaces places;
  EXPECT_TRUE(places.serve_store(options));
  EXPECT_FALSE(can_connect(options));
}

TEST(MeetingPlaces, OptionsThatSayWhoThisIsStayAsTheyAre) {
  MeetingPlaces places;
  const Result<engine::JoinOptions> completed = places.complete(meeting_at("tcp:127.0.0.1:9"));
  ASSERT_TRUE(completed);
  EXPECT_EQ(completed.value().rank, 0);
  EXPECT_EQ(completed.value().size, 2);
  EXPECT_EQ(completed.value().store, "tcp:127.0.0.1:9");
  places.leave_at_exit();  // there is no membership to end
}

}  // namespace
}  // namespace ronde::api
