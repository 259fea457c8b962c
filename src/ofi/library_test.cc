#include "ofi/library.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "ofi/providers.h"

namespace ronde::ofi {
namespace {

TEST(OfiLibrary, AFileThatIsNotThereIsTold) {
  const Result<OfiLibrary> none = OfiLibrary::open("/nowhere/libfabric.so.1");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().code(), Code::invalid_argument);
  EXPECT_NE(none.status().message().find("/nowhere/libfabric.so.1"), std::string::npos) << none.status().message();
}

TEST(OfiLibrary, AnotherLibraryIsTold) {
  const Result<OfiLibrary> other = OfiLibrary::open("libm.so.6");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.status().code(), Code::not_implemented);
  EXPECT_NE(other.status().message().find("libm.so.6 has no fi_version"), std::string::npos)
      << other.status().message();
}

TEST(OfiLibrary, WhoeverNamesAFileIsToldOfItsVariable) {
  ::setenv("RONDE_OFI_LIBRARY", "/nowhere/libfabric.so.1", 1);
  const Result<OfiLibrary> none = OfiLibrary::open();
  ::unsetenv("RONDE_OFI_LIBRARY");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().code(), Code::not_implemented);
  EXPECT_EQ(none.status().message().find("RONDE_OFI_LIBRARY names no libfabric"), 0u) << none.status().message();
}

void on_signal(int) {}

TEST(OfiLibrary, SignalsAreHandledAsBefore) {
  constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGABRT};
  struct sigaction own {};
  own.sa_handler = on_signal;
  std::array<struct sigaction, kSignals.size()> before{};
  ::sigaction(SIGTERM, &own, nullptr);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
  }
  const Result<OfiLibrary> library = OfiLibrary::open();
  if (!library) {
    GTEST_SKIP() << "no libfabric here: " << library.status().message();
  }
  const Result<std::vector<std::string>> names = provider_names(library.value());
  ASSERT_TRUE(names) << names.status().message();
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    ::sigaction(kSignals[i], nullptr, &now);
    EXPECT_EQ(now.sa_handler, before[i].sa_handler) << "signal " << kSignals[i];
  }
}

}  // namespace
}  // namespace ronde::ofi
