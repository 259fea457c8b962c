#include "collectives/tuning/table.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace ronde::collectives {
namespace {

std::string error_of(std::string_view text) {
  const Result<Table> table = Table::parse(text);
  EXPECT_FALSE(table) << text;
  EXPECT_EQ(table.status().code(), Code::invalid_argument);
  return table.status().message();
}

TEST(Table, ReadsWhatItPrints) {
  const Table built_in = Table::built_in();
  const Result<Table> again = Table::parse(built_in.text());
  ASSERT_TRUE(again) << again.status().message();
  EXPECT_EQ(again.value(), built_in);
  EXPECT_EQ(again.value().text(), built_in.text());
}

TEST(Table, ReadsRowsOnLinesAndInOneLine) {
  const Result<Table> lines = Table::parse(
      "# measured here\n\nranks 2: inline 8, one_shot 100, staged 4096,chunk 256 , stream 0\n"
      "  ranks any: one_shot 50  # the rest as built in\n");
  ASSERT_TRUE(lines) << lines.status().message();
  EXPECT_EQ(lines.value().of(1).one_shot, 100u);
  EXPECT_EQ(lines.value().of(2),
            (Thresholds{.inlined = 8, .one_shot = 100, .staged = 4096, .chunk = 256, .stream = 0}));
  EXPECT_EQ(lines.value().of(3).one_shot, 50u);
  EXPECT_EQ(lines.value().of(256).chunk, Table::built_in().of(256).chunk);
  const Result<Table> line =
      Table::parse("ranks 2: inline 8, one_shot 100, staged 4096, chunk 256, stream 0; ranks any: one_shot 50");
  ASSERT_TRUE(line);
  EXPECT_EQ(line.value(), lines.value());
}

TEST(Table, WithoutARowForAllTakesTheBuiltInOne) {
  const Result<Table> table = Table::parse("ranks 4: one_shot 1");
  ASSERT_TRUE(table);
  EXPECT_EQ(table.value().of(4).one_shot, 1u);
  EXPECT_EQ(table.value().of(5), Table::built_in().of(256));
}

TEST(Table, SaysWhatIsWrongInWhichRow) {
  EXPECT_NE(error_of("").find("no row"), std::string::npos);
  EXPECT_NE(error_of("rank 2: chunk 5").find("\"rank 2: chunk 5\""), std::string::npos);
  EXPECT_NE(error_of("ranks two: chunk 4096").find("two"), std::string::npos);
  EXPECT_NE(error_of("ranks 0: chunk 4096").find("1 to 256"), std::string::npos);
  EXPECT_NE(error_of("ranks 2: chunks 4096").find("chunks"), std::string::npos);
  EXPECT_NE(error_of("ranks 2: chunk").find("chunk needs"), std::string::npos);
  EXPECT_NE(error_of("ranks 2: chunk -1").find("chunk needs"), std::string::npos);
  EXPECT_NE(error_of("ranks 2: chunk 5 KiB").find("chunk needs"), std::string::npos);
  EXPECT_NE(error_of("ranks 2: inline 57").find("0 to 56"), std::string::npos);
  EXPECT_NE(error_of("ranks 4: chunk 4096; ranks 4: chunk 4096").find("not greater"), std::string::npos);
}

TEST(Table, LeavesRowsOfHostsToTheOther) {
  EXPECT_EQ(Table::parse("hosts any: turn 3").value(), Table::built_in());
  EXPECT_EQ(Table::parse("hosts 2: turn 3; ranks 4: one_shot 1").value().of(4).one_shot, 1u);
}

TEST(TableText, ComesFromTheEnvironmentAsTextOrFile) {
  ASSERT_EQ(::unsetenv("RONDE_TABLE"), 0);
  EXPECT_EQ(table_text_from_environment().value(), std::nullopt);
  for (const char* text : {"ranks any: chunk 4096", "hosts any: turn 3"}) {
    ASSERT_EQ(::setenv("RONDE_TABLE", text, 1), 0);
    EXPECT_EQ(table_text_from_environment().value(), text);
  }
  EXPECT_EQ(Table::from_environment().value(), Table::built_in());
  const std::string path = testing::TempDir() + "table.txt";
  std::ofstream(path) << "ranks any: chunk 8192\n";
  ASSERT_EQ(::setenv("RONDE_TABLE", path.c_str(), 1), 0);
  EXPECT_EQ(table_text_from_environment().value(), "ranks any: chunk 8192\n");
  EXPECT_EQ(Table::from_environment().value()->of(2).chunk, 8192u);
  std::ofstream(path) << "ranks any: chunk x\n";
  EXPECT_EQ(Table::from_environment().status().code(), Code::invalid_argument);
  EXPECT_NE(Table::from_environment().status().message().find("RONDE_TABLE"), std::string::npos);
  ASSERT_EQ(::setenv("RONDE_TABLE", "/no/such/file", 1), 0);
  EXPECT_EQ(table_text_from_environment().status().code(), Code::invalid_argument);
  EXPECT_NE(table_text_from_environment().status().message().find("RONDE_TABLE"), std::string::npos);
  EXPECT_NE(table_text_from_environment().status().message().find("/no/such/file"), std::string::npos);
  ASSERT_EQ(::unsetenv("RONDE_TABLE"), 0);
}

}  // namespace
}  // namespace ronde::collectives
