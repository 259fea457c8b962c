#include "engine/groups/group_word.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::byte> bytes_of(const std::vector<GroupWord>& words) {
  std::vector<std::byte> all;
  for (const GroupWord& word : words) {
    const std::vector<std::byte> one = encode(word);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

TEST(GroupWord, ComesAsItWent) {
  const std::vector<std::byte> bytes =
      bytes_of({{{2, 0}, {1 << 21, 3}, {}, {5, 9}}, {{}, {}, Status::error(Code::out_of_memory, "no room")}, {{-1}}});
  const Result<std::vector<GroupWord>> words = decode_words(bytes, 3);
  ASSERT_TRUE(words) << words.status().message();
  EXPECT_THAT(words.value()[0].numbers, ElementsAre(2, 0));
  EXPECT_THAT(words.value()[0].part, ElementsAre(1 << 21, 3));
  EXPECT_TRUE(words.value()[0].problem);
  EXPECT_EQ(words.value()[0].id.known, 5);
  EXPECT_EQ(words.value()[0].id.free, 9);
  EXPECT_THAT(words.value()[1].numbers, IsEmpty());
  EXPECT_EQ(words.value()[1].problem.code(), Code::out_of_memory);
  EXPECT_EQ(words.value()[1].problem.message(), "no room");
  EXPECT_THAT(words.value()[2].numbers, ElementsAre(-1));
}

TEST(GroupWord, NothingIsNoWord) {
  EXPECT_TRUE(decode_words({}, 0));
  EXPECT_EQ(decode_words({}, 1).status().code(), Code::internal);
}

TEST(GroupWord, BytesThatAreMissingOrTooManyAreRefused) {
  const std::vector<std::byte> bytes = bytes_of({{{1, 2, 3}, {4}, Status::error(Code::mismatch, "x")}});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode_words(std::span(bytes).first(length), 1)) << length;
  }
  EXPECT_TRUE(decode_words(bytes, 1));
  EXPECT_FALSE(decode_words(bytes_of({{{1}}, {{2}}}), 1));
}

TEST(GroupWord, TheFirstProblemIsEveryonesAndNamesItsRank) {
  const Status none = first_problem({{{1}}, {{1}}}, {0, 1});
  EXPECT_TRUE(none);
  const Status second = first_problem({{{1}},
                                       {{1}, {}, Status::error(Code::invalid_argument, "bad")},
                                       {{1}, {}, Status::error(Code::mismatch, "worse")}},
                                      {4, 7, 5});
  EXPECT_EQ(second.code(), Code::invalid_argument);
  EXPECT_EQ(second.failed_rank(), 7);
  EXPECT_THAT(second.message(), HasSubstr("rank 7"));
  EXPECT_THAT(second.message(), HasSubstr("bad"));
}

}  // namespace
}  // namespace ronde::engine
