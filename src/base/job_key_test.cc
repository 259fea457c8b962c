#include "base/job_key.h"

#include <gtest/gtest.h>

namespace ronde {
namespace {

TEST(JobKey, ComesBackFromItsText) {
  const Result<JobKey> key = make_job_key();
  ASSERT_TRUE(key);
  const std::string text = to_hex(key.value());
  EXPECT_EQ(text.size(), 64u);
  const Result<JobKey> again = parse_job_key(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(again.value(), key.value());
}

TEST(JobKey, TakesUpperCase) {
  const Result<JobKey> key = parse_job_key(std::string(62, '0') + "aF");
  ASSERT_TRUE(key);
  EXPECT_EQ(key.value().bytes[31], std::byte{0xaf});
}

TEST(JobKey, IsNeverTheSameTwice) { EXPECT_NE(make_job_key().value(), make_job_key().value()); }

TEST(JobKey, BadTextGivesOneSentence) {
  EXPECT_EQ(parse_job_key("secret").status().message(),
            "a job key is 64 hexadecimal digits; this one has 6 characters");
  EXPECT_EQ(parse_job_key(std::string(63, 'a') + "g").status().message(),
            "a job key is 64 hexadecimal digits; this one has another character at position 63");
  EXPECT_EQ(parse_job_key("").status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace ronde
