#include "engine/process/first_table.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <tuple>

#include "collectives/tuning/derived_table.h"

namespace ronde::engine {
namespace {

using collectives::Table;
using collectives::TableCache;

class FirstTableTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  TableCache cache() const { return {folder_ + "/table", "# here"}; }

 private:
  std::string folder_ = testing::TempDir() + "ronde-first-table-XXXXXX";
};

TEST_F(FirstTableTest, WhatIsGivenIsUsedAndNothingIsProbed) {
  const auto never = []() -> std::optional<TableCache> {
    ADD_FAILURE() << "not even looked for";
    return std::nullopt;
  };
  const Table given = Table::parse("ranks any: chunk 4096").value();
  EXPECT_EQ(first_table(given, true, 2, 8, never).table, given);
  EXPECT_FALSE(first_table(given, true, 2, 8, never).task);
  for (const auto& [may_probe, ranks, cores] : {std::tuple{false, 2, 8.0}, {true, 1, 8.0}, {true, 4, 3.5}}) {
    const FirstTable first = first_table(std::nullopt, may_probe, ranks, cores, never);
    EXPECT_EQ(first.table, Table::built_in());
    EXPECT_FALSE(first.task);
  }
}

TEST_F(FirstTableTest, WhatAnEarlierJobHasMeasuredIsUsed) {
  const auto open = [this] { return std::optional(cache()); };
  FirstTable first = first_table(std::nullopt, true, 4, 4, open);
  EXPECT_EQ(first.table, Table::built_in());
  ASSERT_TRUE(first.task);
  EXPECT_FALSE(first.task->hand_over) << "so it is measured soon";
  collectives::Measurement machine = collectives::kReference;
  machine.hand_over = 150;
  const Table table = collectives::derive_table(machine);
  ASSERT_TRUE(cache().store({table, 150}));
  first = first_table(std::nullopt, true, 4, 4, open);
  EXPECT_EQ(first.table, table);
  ASSERT_TRUE(first.task);
  EXPECT_EQ(first.task->hand_over, 150);
  EXPECT_EQ(first.task->row, table.of(4));
  first = first_table(std::nullopt, true, 4, 4, [] { return std::optional<TableCache>(); });
  EXPECT_TRUE(first.task) << "without a folder it is measured for this job alone";
}

}  // namespace
}  // namespace ronde::engine
