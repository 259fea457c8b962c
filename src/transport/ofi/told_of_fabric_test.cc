#include "transport/ofi/told_of_fabric.h"

#include <gtest/gtest.h>

namespace ronde::transport {
namespace {

ToldOfFabric told_here() {
  ToldOfFabric told;
  told.host = "a";
  told.library = "1.17";
  told.provider = "net";
  told.protocol = 5;
  told.protocol_version = 1;
  told.fragment_bytes = 65536;
  told.width = 16;
  told.needs_bells = true;
  told.address = {std::byte{2}, std::byte{0}, std::byte{9}};
  return told;
}

TEST(ToldOfFabric, IsReadAsItWasWritten) {
  const Result<ToldOfFabric> read = ToldOfFabric::decode(told_here().encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read.value().host, "a");
  EXPECT_EQ(read.value().library, "1.17");
  EXPECT_EQ(read.value().provider, "net");
  EXPECT_EQ(read.value().protocol, 5u);
  EXPECT_EQ(read.value().protocol_version, 1u);
  EXPECT_EQ(read.value().fragment_bytes, 65536u);
  EXPECT_EQ(read.value().width, 16u);
  EXPECT_TRUE(read.value().needs_bells);
  EXPECT_EQ(read.value().address, told_here().address);
  EXPECT_EQ(read.value().failure, "");
}

TEST(ToldOfFabric, WhatIsCutOffIsNotRead) {
  std::vector<std::byte> bytes = told_here().encode();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(ToldOfFabric::decode(std::span(bytes).first(length))) << length;
  }
}

TEST(ReachOneFabric, ARankThatReachesNoneIsNamedWithTheCause) {
  std::vector<ToldOfFabric> all(3, told_here());
  EXPECT_TRUE(reach_one_fabric(all));
  all[2].host = "c";
  all[2].failure = "there is no libfabric";
  const Status status = reach_one_fabric(all);
  EXPECT_EQ(status.code(), Code::system_error);
  EXPECT_EQ(status.failed_rank(), 2);
  EXPECT_EQ(status.message(), "rank 2 (host c) cannot use RONDE_TRANSPORT=ofi: there is no libfabric");
}

TEST(ReachOneFabric, RanksWithOtherProvidersAreNamed) {
  std::vector<ToldOfFabric> all(3, told_here());
  all[1].provider = "tcp";
  all[1].library = "2.5";
  all[1].host = "b";
  const Status status = reach_one_fabric(all);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.failed_rank(), 1);
  EXPECT_EQ(
      status.message(),
      "RONDE_TRANSPORT=ofi: rank 1 (host b) has provider tcp of libfabric 2.5 (protocol 5, version 1), but rank 0 "
      "(host a) has provider net of libfabric 1.17 (protocol 5, version 1); all ranks need one: set "
      "RONDE_OFI_PROVIDER, and RONDE_OFI_LIBRARY where hosts have several libraries");
}

}  // namespace
}  // namespace ronde::transport
