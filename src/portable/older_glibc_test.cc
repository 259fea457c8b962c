// This program has the functions inside, as what we ship has: they take the place of glibc's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <random>
#include <set>
#include <stdexcept>
#include <string>

namespace ronde {
namespace {

void throw_with(const std::string& text) { throw std::runtime_error(text); }

TEST(OlderGlibc, TheFunctionsAreThisProgramsOwn) {
  for (void* function : {reinterpret_cast<void*>(&_dl_find_object), reinterpret_cast<void*>(&arc4random)}) {
    Dl_info its{};
    Dl_info ours{};
    ASSERT_NE(dladdr(function, &its), 0);
    ASSERT_NE(dladdr(reinterpret_cast<void*>(&throw_with), &ours), 0);
    EXPECT_STREQ(its.dli_fname, ours.dli_fname);
  }
}

TEST(OlderGlibc, AnAddressIsFoundInItsObjectAsGlibcFindsIt) {
  void* glibc = dlopen("libc.so.6", RTLD_NOW);
  ASSERT_NE(glibc, nullptr);
  auto* theirs = reinterpret_cast<decltype(&_dl_find_object)>(dlsym(glibc, "_dl_find_object"));
  ASSERT_NE(theirs, nullptr);
  for (void* address : {reinterpret_cast<void*>(&throw_with), dlsym(glibc, "printf")}) {
    dl_find_object found{};
    dl_find_object expected{};
    ASSERT_EQ(_dl_find_object(address, &found), 0);
    ASSERT_EQ(theirs(address, &expected), 0);
    EXPECT_EQ(found.dlfo_eh_frame, expected.dlfo_eh_frame);
    EXPECT_LE(found.dlfo_map_start, address);
    EXPECT_GT(found.dlfo_map_end, address);
  }
  dlclose(glibc);
}

TEST(OlderGlibc, AnAddressOfNoObjectIsNotFound) {
  int local = 0;
  dl_find_object found{};
  EXPECT_EQ(_dl_find_object(&local, &found), -1);
  EXPECT_EQ(_dl_find_object(nullptr, &found), -1);
}

TEST(OlderGlibc, ExceptionsAreCaughtWithWhatTheySay) {
  EXPECT_THROW(throw_with("here"), std::runtime_error);
  // One that the run-time library throws.
  EXPECT_THROW(std::string("short").at(9), std::out_of_range);
}

TEST(OlderGlibc, RandomNumbersDiffer) {
  std::random_device device;
  std::set<unsigned> numbers;
  for (int i = 0; i < 1000; ++i) numbers.insert(device());
  EXPECT_GT(numbers.size(), 990U);
}

}  // namespace
}  // namespace ronde
