#include "transport/shm/hello.h"

#include <gtest/gtest.h>

namespace ronde::transport {
namespace {

Hello make_hello() {
  Hello hello;
  hello.library_version = "1.2.3";
  hello.layout = RegionLayout::for_size(3);
  hello.host = "node7";
  hello.pid = 4711;
  hello.descriptors = 3;
  hello.failure = "";
  return hello;
}

TEST(Hello, ComesBackFromItsBytes) {
  Hello hello = make_hello();
  hello.failure = "no memory";
  const Result<Hello> got = decode(encode(hello));
  ASSERT_TRUE(got);
  EXPECT_EQ(got.value().arena_version, kArenaVersion);
  EXPECT_EQ(got.value().library_version, "1.2.3");
  EXPECT_EQ(got.value().layout, hello.layout);
  EXPECT_EQ(got.value().host, "node7");
  EXPECT_EQ(got.value().pid, 4711);
  EXPECT_EQ(got.value().descriptors, 3u);
  EXPECT_EQ(got.value().failure, "no memory");
}

TEST(Hello, AnythingElseIsRefused) {
  const std::vector<std::byte> whole = encode(make_hello());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Result<Hello> got = decode(std::span(whole).first(bytes));
    ASSERT_FALSE(got) << bytes;
    EXPECT_EQ(got.status().code(), Code::version_mismatch);
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer));
  std::vector<std::byte> foreign = whole;
  foreign[0] = std::byte{'x'};
  EXPECT_FALSE(decode(foreign));
}

TEST(Hello, OfAnotherVersionStillTellsItsVersion) {
  Hello hello = make_hello();
  hello.arena_version = kArenaVersion + 1;
  const Result<Hello> got = decode(encode(hello));
  ASSERT_TRUE(got);
  EXPECT_EQ(got.value().library_version, "1.2.3");
  EXPECT_EQ(got.value().arena_version, kArenaVersion + 1);
}

std::vector<Result<Hello>> three(Hello last) { return {make_hello(), make_hello(), std::move(last)}; }

TEST(JudgeHellos, AllAlikeIsFine) { EXPECT_TRUE(judge(three(make_hello()))); }

TEST(JudgeHellos, NamesBothSidesOfADifference) {
  Hello other = make_hello();
  other.library_version = "2.0.0";
  Status status = judge(three(other));
  EXPECT_EQ(status.code(), Code::version_mismatch);
  EXPECT_EQ(status.failed_rank(), 2);
  EXPECT_NE(status.message().find("1.2.3"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("2.0.0"), std::string::npos) << status.message();

  other = make_hello();
  other.layout.slot_bytes = 4096;
  status = judge(three(other));
  EXPECT_EQ(status.code(), Code::version_mismatch);
  EXPECT_NE(status.message().find("262144"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("4096"), std::string::npos) << status.message();
}

TEST(JudgeHellos, HeapsMayDifferAndTheSmallestIsTaken) {
  Hello other = make_hello();
  other.layout.heap_bytes = 3 * kHugePageBytes;
  EXPECT_TRUE(judge(three(other)));
  EXPECT_EQ(agreed_layout(three(other)), other.layout);
  other.layout.heap_bytes = 0;
  EXPECT_EQ(agreed_layout(three(other)).heap_bytes, 0u);
}

TEST(JudgeHellos, PassesOnTheFailureOfARank) {
  Hello other = make_hello();
  other.failure = "memfd_create: Too many open files (errno 24)";
  const Status status = judge(three(other));
  EXPECT_EQ(status.code(), Code::system_error);
  EXPECT_EQ(status.failed_rank(), 2);
  EXPECT_EQ(status.message(), "rank 2 on host node7 cannot share memory: memfd_create: Too many open files (errno 24)");
}

TEST(JudgeHellos, NamesRanksAsTheJobCountsThem) {
  const std::vector<int> job_ranks = {1, 3, 4};
  Hello other = make_hello();
  other.failure = "no memory";
  Status status = judge(three(other), job_ranks);
  EXPECT_EQ(status.failed_rank(), 4);
  EXPECT_EQ(status.message(), "rank 4 on host node7 cannot share memory: no memory");
  other = make_hello();
  other.library_version = "2.0.0";
  status = judge(three(other), job_ranks);
  EXPECT_EQ(status.failed_rank(), 4);
  EXPECT_NE(status.message().find("rank 1 on host node7 has Ronde 1.2.3"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("rank 4 on host node7 has Ronde 2.0.0"), std::string::npos) << status.message();
}

TEST(JudgeHellos, ForeignBytesAreNamedWithTheirRank) {
  const std::vector<Result<Hello>> hellos = {make_hello(), decode({})};
  const Status status = judge(hellos);
  EXPECT_EQ(status.code(), Code::version_mismatch);
  EXPECT_EQ(status.failed_rank(), 1);
}

}  // namespace
}  // namespace ronde::transport
