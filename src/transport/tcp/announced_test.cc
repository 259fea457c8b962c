#include "transport/tcp/announced.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "store/memory_store.h"
#include "transport/tcp/tcp.h"

namespace ronde::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Announced made() {
  Announced announced;
  announced.who = {"node7", 4711};
  announced.address = "10.0.0.7";
  announced.port = 40000;
  announced.integrity = 1;
  return announced;
}

TEST(Announced, IsUnderstood) {
  const Result<Announced> got = Announced::decode(made().encode());
  ASSERT_TRUE(got) << got.status().message();
  EXPECT_EQ(got.value().who.host, "node7");
  EXPECT_EQ(got.value().who.pid, 4711);
  EXPECT_EQ(got.value().address, "10.0.0.7");
  EXPECT_EQ(got.value().port, 40000);
  EXPECT_EQ(got.value().integrity, 1);
}

TEST(Announced, OfAnotherVersionNamesBothWhateverFollows) {
  Announced other = made();
  other.library_version = "9.8.7";
  EXPECT_EQ(Announced::decode(other.encode()).status().code(), Code::version_mismatch);
  other.wire_version = 77;
  std::vector<std::byte> bytes = other.encode();
  bytes.resize(bytes.size() - 20, std::byte{});  // another form behind the versions
  const Status status = Announced::decode(bytes).status();
  EXPECT_EQ(status.code(), Code::version_mismatch);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("9.8.7 (wire version 77)"), HasSubstr("this rank " + std::string(kVersion)),
                    HasSubstr("all ranks need one version")));
}

TEST(Announced, AnythingElseIsRefused) {
  const std::vector<std::byte> whole = made().encode();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    ASSERT_FALSE(Announced::decode(std::span(whole).first(bytes))) << bytes;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(Announced::decode(longer));
}

TEST(Announced, ItsFailureIsPassedOn) {
  Announced failed = made();
  failed.failure = "no port is free";
  EXPECT_EQ(Announced::decode(failed.encode()).status().message(), "no port is free");
}

// Of two ranks one is of another version: the other does not wait for its connection, and names it.
TEST(Announced, ARankOfAnotherVersionIsNamed) {
  store::MemoryStore store;
  std::thread other([&] {
    Announced announced = made();
    announced.library_version = "9.8.7";
    store::Value value;
    value.bytes = announced.encode();
    EXPECT_TRUE(store.exchange("meeting", 1, 2, std::move(value), 60 * kSecond));
  });
  const Result<TcpConnections> connections = connect_by_tcp(store, make_job_key().value(), "meeting", 0, 2, "127.0.0.1",
                                                            TcpOptions{HostTimeout(10 * kSecond)}, 60 * kSecond);
  other.join();
  ASSERT_FALSE(connections);
  EXPECT_EQ(connections.status().code(), Code::version_mismatch);
  EXPECT_EQ(connections.status().failed_rank(), 1);
  EXPECT_THAT(connections.status().message(), HasSubstr("rank 1: it has Ronde 9.8.7"));
}

}  // namespace
}  // namespace ronde::transport
