#include "collectives/tuning/host_table.h"

#include <gtest/gtest.h>

namespace ronde::collectives {
namespace {

using messages::MessageLimits;

std::string wrong_with(std::string_view text) {
  const Result<HostTable> table = HostTable::parse(text);
  EXPECT_FALSE(table) << text;
  EXPECT_EQ(table.status().code(), Code::invalid_argument);
  return table.status().message();
}

TEST(HostTable, TakesTheFirstRowThatIsLargeEnough) {
  const Result<HostTable> table = HostTable::parse(
      "# of this cluster\n"
      "hosts 2: one_turn 65536\n"
      "hosts 16: turn 5, chunk 131072  # the rest as built in\n");
  ASSERT_TRUE(table) << table.status().message();
  const HostTable built_in = HostTable::built_in();
  EXPECT_EQ(table.value().of(1).one_turn, 65536u);
  EXPECT_EQ(table.value().of(2).one_turn, 65536u);
  EXPECT_EQ(table.value().of(2).turn, MessageLimits().turn);
  EXPECT_EQ(table.value().of(3).turn, 5u);
  EXPECT_EQ(table.value().of(3).one_turn, built_in.of(16).one_turn) << "of a row for 16 hosts";
  EXPECT_EQ(table.value().of(16).chunk, 131072u);
  EXPECT_EQ(table.value().of(17).turn, MessageLimits().turn);
  EXPECT_EQ(table.value().of(17).one_turn, built_in.of(17).one_turn);
  EXPECT_EQ(HostTable::parse("ranks 2: chunk 4096; hosts any: turn 7").value().of(4096).turn, 7u);
  EXPECT_EQ(HostTable::parse("ranks 2: chunk 4096").value().of(3).one_turn, built_in.of(3).one_turn);
}

TEST(HostTable, HasLessInOneTurnOfMoreHosts) {
  const HostTable built_in = HostTable::built_in();
  EXPECT_EQ(built_in.of(2).one_turn, MessageLimits().one_turn);
  EXPECT_LT(built_in.of(3).one_turn, built_in.of(2).one_turn);
  EXPECT_LT(built_in.of(5).one_turn, built_in.of(4).one_turn);
  EXPECT_EQ(built_in.of(5).one_turn, built_in.of(4096).one_turn);
}

TEST(HostTable, HasSeveralTurnsForMoreThanEightHosts) {
  const HostTable built_in = HostTable::built_in();
  EXPECT_EQ(built_in.of(8).large_turn, messages::kEachWithEach);
  EXPECT_LT(built_in.of(9).large_turn, messages::kEachWithEach);
  for (const int hosts : {3, 8, 9, 100}) {
    EXPECT_EQ(HostTable::parse("hosts any: turn 3").value().of(hosts).large_turn, built_in.of(hosts).large_turn);
    EXPECT_EQ(HostTable::parse("hosts any: large_turn 5").value().of(hosts).large_turn, 5u);
  }
}

TEST(HostTable, ReadsWhatItPrints) {
  MessageLimits limits;
  limits.one_turn = 1000;
  limits.gathered = 9999;
  limits.turn = 9;
  limits.large_turn = 7;
  limits.direct = 1234;
  limits.ring = 5678;
  limits.chunk = 4096;
  const std::string text = HostTable::row_text(3, limits);
  EXPECT_EQ(text, "hosts 3: one_turn 1000, gathered 9999, turn 9, large_turn 7, direct 1234, ring 5678, chunk 4096\n");
  const MessageLimits again = HostTable::parse(text).value().of(3);
  EXPECT_EQ(HostTable::row_text(3, again), text);
}

TEST(HostTable, SaysWhatIsWrongInWhichRow) {
  EXPECT_NE(wrong_with("").find("no row"), std::string::npos);
  EXPECT_NE(wrong_with("host 2: turn 5").find("\"host 2: turn 5\""), std::string::npos);
  EXPECT_NE(wrong_with("hosts two: turn 1").find("two"), std::string::npos);
  const std::string unknown = wrong_with("hosts 2: inline 5");
  EXPECT_NE(unknown.find("none of one_turn, gathered, turn, large_turn, direct, ring and chunk"), std::string::npos);
  EXPECT_NE(wrong_with("hosts 2: chunk 200").find("a multiple of 128"), std::string::npos);
  EXPECT_NE(wrong_with("hosts 2: one_turn 4194305").find("0 to 4194304"), std::string::npos);
  EXPECT_NE(wrong_with("hosts 4: turn 1; hosts 4: turn 2").find("not greater"), std::string::npos);
}

}  // namespace
}  // namespace ronde::collectives
