#include "ofi/providers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ronde::ofi {
namespace {

TEST(OfiProviders, NetworksMadeForThisComeFirst) {
  EXPECT_LT(preference("cxi"), preference("net"));
  EXPECT_LT(preference("verbs;ofi_rxm"), preference("net"));
  EXPECT_LT(preference("net"), preference("tcp"));
  EXPECT_LT(preference("tcp"), preference("tcp;ofi_rxm"));
  for (const char* const other : {"sockets", "shm", "udp;ofi_rxd", "net;ofi_rxm", "psm3", ""}) {
    EXPECT_EQ(preference(other), -1) << other;
  }
}

TEST(OfiProviders, SomeAreRefusedWithTheReason) {
  EXPECT_NE(refusal("sockets").find("given it up"), std::string_view::npos);
  EXPECT_NE(refusal("shm").find("/dev/shm"), std::string_view::npos);
  EXPECT_EQ(refusal("net"), "");
  EXPECT_EQ(refusal("efa"), "");
}

TEST(OfiProviders, OneNameMayMeanALayerToo) {
  EXPECT_TRUE(is_meant("tcp", "tcp"));
  EXPECT_TRUE(is_meant("tcp", "tcp;ofi_rxm"));
  EXPECT_TRUE(is_meant("verbs;ofi_rxm", "verbs;ofi_rxm"));
  EXPECT_FALSE(is_meant("net", "tcp"));
  EXPECT_FALSE(is_meant("udp", "udp;ofi_rxd"));
}

class OfThisLibrary : public testing::Test {
 protected:
  void SetUp() override {
    Result<OfiLibrary> opened = OfiLibrary::open();
    if (!opened) {
      GTEST_SKIP() << "no libfabric here: " << opened.status().message();
    }
    library_ = *opened;
  }
  std::string why_not(const std::string& named, const std::string& address) {
    const Result<Infos> chosen = choose(library_, named, address);
    return chosen ? "it was chosen" : chosen.status().message();
  }
  OfiLibrary library_;
};

TEST_F(OfThisLibrary, WithoutANameTheBestIsChosen) {
  const Result<Infos> chosen = choose(library_, "", "127.0.0.1");
  ASSERT_TRUE(chosen) << chosen.status().message();
  const std::string name = chosen.value()->fabric_attr->prov_name;
  const Result<std::vector<std::string>> names = provider_names(library_);
  ASSERT_TRUE(names);
  for (const std::string& other : names.value()) {
    EXPECT_TRUE(preference(other) < 0 || preference(other) >= preference(name)) << other << " before " << name;
  }
  EXPECT_EQ(chosen.value()->next, nullptr);
}

TEST_F(OfThisLibrary, WhatIsNotThereIsToldWithWhatIs) {
  const std::string why = why_not("none", "127.0.0.1");
  EXPECT_NE(why.find("has no provider 'none'"), std::string::npos) << why;
  EXPECT_NE(why.find("tcp"), std::string::npos) << why;
  EXPECT_NE(why.find("set RONDE_OFI_PROVIDER"), std::string::npos) << why;
}

TEST_F(OfThisLibrary, AnAddressOfAnotherHostIsTold) {
  const std::string why = why_not("tcp", "198.51.100.7");
  EXPECT_NE(why.find("at this rank's address, 198.51.100.7"), std::string::npos) << why;
  EXPECT_NE(why.find("set RONDE_ADDRESS"), std::string::npos) << why;
}

TEST_F(OfThisLibrary, WhatIsRefusedIsNotLookedFor) {
  EXPECT_NE(why_not("sockets", "127.0.0.1").find("which Ronde does not use"), std::string::npos);
}

}  // namespace
}  // namespace ronde::ofi
