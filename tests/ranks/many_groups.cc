// Many live groups of ranks: they share the job's address space, descriptors, threads and memory. RONDE_TEST_SOAK=1
// makes as many as are promised, a thousand of two and a hundred of sixteen.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <ronde/ronde.hpp>

#include "support/effort.h"
#include "support/rank_test.h"

namespace ronde::test {
namespace {

bool is_soak() {
  const char* const value = std::getenv("RONDE_TEST_SOAK");
  return value != nullptr && std::string(value) == "1";
}

/// A number of /proc/self/status.
std::size_t of_status(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) {
      return std::stoul(line.substr(field.size() + 1));
    }
  }
  ADD_FAILURE() << field;
  return 0;
}

struct Taken {
  std::size_t descriptors = 0, threads = 0, private_kib = 0, shared_kib = 0, addresses_kib = 0;

  static Taken now() {
    Taken taken;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      ++taken.descriptors;
      std::error_code gone;  // the descriptor that lists them
      if (std::filesystem::read_symlink(entry, gone).string().starts_with("/memfd:ronde")) {
        struct stat file {};
        EXPECT_EQ(::stat(entry.path().c_str(), &file), 0);
        taken.shared_kib += static_cast<std::size_t>(file.st_blocks) / 2;
      }
    }
    taken.threads = of_status("Threads");
    taken.private_kib = of_status("RssAnon");
    taken.addresses_kib = of_status("VmSize");
    return taken;
  }
};

TEST(ManyGroups, LiveTogether) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 1024;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const Session session;
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  const float total = static_cast<float>(size() * (size() + 1) / 2);
  const auto add_up = [&](const Group& group, std::size_t count) {
    std::vector<float> values(count, static_cast<float>(test::rank() + 1));
    ronde::allreduce(values, {.name = "x", .op = Op::sum, .group = group});
    return values.front() == total && values.back() == total;
  };
  ASSERT_TRUE(add_up(Group(), 5));
  const Taken before = Taken::now();
  const std::size_t count = size() == 2 ? (is_soak() ? 1000 : 300) : (is_soak() ? 100 : 30);
  std::vector<Group> groups;
  for (std::size_t i = 0; i < count; ++i) {
    groups.push_back(make_group(all));
    ASSERT_TRUE(add_up(groups.back(), 5)) << i;
  }
  for (const Group& group : groups) {
    ASSERT_TRUE(add_up(group, 100));
  }
  const Taken after = Taken::now();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.addresses_kib >> 20, before.addresses_kib >> 20) << "in GiB: it is the job's";
  const std::size_t shared_kib = (after.shared_kib - before.shared_kib) / count;
  const std::size_t private_kib = (after.private_kib - before.private_kib) / count;
  EXPECT_LE(shared_kib, size() == 2 ? 128u : 256u) << "a group";
  if (kFullEffort) {  // a sanitizer keeps what is freed
    EXPECT_LE(private_kib, 64u) << "a group";
  }
  // Large tensors need a group's own slots, which then exist for as long as the group does.
  ASSERT_TRUE(add_up(groups.front(), 100000));
  ASSERT_TRUE(add_up(groups.back(), 100000));
  for (const Group& group : groups) {
    destroy_group(group);
  }
  // What they have left is there for others.
  const std::size_t left_kib = Taken::now().shared_kib;
  for (std::size_t i = 0; i < 20; ++i) {
    const Group group = make_group(all);
    ASSERT_TRUE(add_up(group, 5));
    destroy_group(group);
  }
  EXPECT_LE(Taken::now().shared_kib, left_kib + 4096);
}

}  // namespace
}  // namespace ronde::test
