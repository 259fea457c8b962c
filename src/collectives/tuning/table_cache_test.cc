#include "collectives/tuning/table_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "collectives/tuning/derived_table.h"

namespace ronde::collectives {
namespace {

class TableCacheTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/ronde-table-1"; }
  TableCache cache(const std::string& identity = "# ronde 1, boot a, processor X, 2 GHz") const {
    return {path(), identity};
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path()).rdbuf();
    return all.str();
  }
  void write(const std::string& text) const { std::ofstream(path()) << text; }

  std::string folder_ = testing::TempDir() + "table-XXXXXX";
  const ProbedTable probed_{derive_table({70, 9, 20, 1 << 20, 32 << 20}), 70};
};

TEST_F(TableCacheTest, WhatIsKeptComesBack) {
  EXPECT_FALSE(cache().load());
  ASSERT_TRUE(cache().store(probed_));
  const auto again = cache().load();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->table, probed_.table);
  EXPECT_EQ(again->hand_over, 70);
  struct stat about {};
  ASSERT_EQ(::stat(path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  ASSERT_TRUE(cache().store({Table::built_in(), 99.6})) << "it may be replaced";
  EXPECT_EQ(cache().load()->hand_over, 100);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing lies beside it";
}

TEST_F(TableCacheTest, WhatIsOfAnotherBootVersionOrProcessorCountsAsNothing) {
  ASSERT_TRUE(cache().store(probed_));
  EXPECT_FALSE(cache("# ronde 1, boot b, processor X, 2 GHz").load());
  EXPECT_FALSE(cache("# ronde 2, boot a, processor X, 2 GHz").load());
  EXPECT_FALSE(cache("# ronde 1, boot a, processor X, 3 GHz").load());
  EXPECT_FALSE(cache("# ronde 1, boot a, processor X").load());
}

TEST_F(TableCacheTest, WhatCannotBeReadCountsAsNothing) {
  ASSERT_TRUE(cache().store(probed_));
  const std::string whole = text();
  for (const std::string& broken :
       {std::string(), std::string("nonsense"), whole.substr(0, 20), whole.substr(0, whole.find('\n') + 1),
        whole + "ranks 2: chunk x\n",
        whole.substr(0, whole.find("hand-over ")) + "hand-over ns\nranks 2: chunk 4096\n"}) {
    write(broken);
    EXPECT_FALSE(cache().load()) << broken;
  }
  write(whole);
  EXPECT_TRUE(cache().load());
  ASSERT_EQ(::chmod(path().c_str(), 0622), 0);
  EXPECT_FALSE(cache().load()) << "others could have written it";
  ASSERT_EQ(::rename(path().c_str(), (folder_ + "/x").c_str()), 0);
  ASSERT_EQ(::chmod((folder_ + "/x").c_str(), 0600), 0);
  ASSERT_EQ(::symlink((folder_ + "/x").c_str(), path().c_str()), 0);
  EXPECT_FALSE(cache().load()) << "a link is not followed";
}

TEST_F(TableCacheTest, AFileOfAnotherUserCountsAsNothing) {
  ASSERT_TRUE(cache().store(probed_));
  if (::geteuid() != 0) {
    EXPECT_TRUE(cache().load());
    return;  // only root can give a file away
  }
  ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(cache().load());
}

TEST_F(TableCacheTest, NoFolderIsNoError) {
  const TableCache nowhere("/proc/no/such/folder/ronde-table-1", "# x");
  EXPECT_FALSE(nowhere.store(probed_));
  EXPECT_FALSE(nowhere.load());
  const TableCache fresh(folder_ + "/.cache/ronde/ronde-table-1", "# x");
  EXPECT_TRUE(fresh.store(probed_)) << "a home without ~/.cache";
  EXPECT_TRUE(fresh.load());
}

TEST(TableCachePath, TheFirstFolderThatIsNamed) {
  EXPECT_EQ(table_cache_path("/run/user/7", "/c", "/h", 7), "/run/user/7/ronde-table-7");
  EXPECT_EQ(table_cache_path(nullptr, "/c", "/h", 7), "/c/ronde/ronde-table-7");
  EXPECT_EQ(table_cache_path("", "relative", "/h", 7), "/h/.cache/ronde/ronde-table-7");
  EXPECT_EQ(table_cache_path(nullptr, nullptr, nullptr, 7), "");
}

}  // namespace
}  // namespace ronde::collectives
