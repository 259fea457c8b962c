#include "base/ancestor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace ronde {
namespace {

TEST(Ancestor, IsFoundByAWordOfItsFile) {
  std::array<char, 4096> text{};
  const ssize_t bytes = ::readlink("/proc/self/exe", text.data(), text.size());
  ASSERT_GT(bytes, 0);
  const std::string own(text.data(), static_cast<std::size_t>(bytes));
  const std::size_t slash = own.rfind('/');
  const pid_t child = ::fork();
  if (child == 0) {  // whose parent, and then whose parent's parent, this program is
    const bool is_found = folder_of_ancestor({"no such", own.substr(slash + 1)}) == own.substr(0, slash);
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::_exit(folder_of_ancestor({own.substr(slash + 1)}) == own.substr(0, slash) ? 0 : 1);
    }
    int status = 1;
    ::waitpid(grandchild, &status, 0);
    ::_exit(is_found && status == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Ancestor, OfAnotherNameIsNone) { EXPECT_EQ(folder_of_ancestor({"no program has this name"}), std::nullopt); }

}  // namespace
}  // namespace ronde
