#include "base/found_functions.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ronde {
namespace {

TEST(FoundFunctions, TellWhatIsThereAndTheFirstThatIsNot) {
  FoundFunctions found(::dlopen(nullptr, RTLD_NOW));
  pid_t (*known)() = nullptr;
  found.find(known, "getpid");
  EXPECT_TRUE(found.has_all());
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known(), ::getpid());
  void* data = &data;
  found.find(data, "no such name");
  found.find(data, "nor this");
  EXPECT_EQ(data, nullptr);
  EXPECT_FALSE(found.has_all());
  EXPECT_EQ(found.missing(), "no such name");
}

}  // namespace
}  // namespace ronde
