#include "store/exchange_frames.h"

#include <gtest/gtest.h>

#include <random>

namespace ronde::store {
namespace {

TEST(ExchangeFrames, ARequestComesBack) {
  const Request request{"init/1", 2, 3, 5 * kSecond, std::vector<std::byte>(kMaxValueBytes, std::byte{7})};
  const auto frame = encode_request(request);
  EXPECT_LE(frame.size(), kMaxFrameBytes);
  const Result<Request> got = decode_request(frame);
  ASSERT_TRUE(got);
  EXPECT_EQ(got.value().scope, request.scope);
  EXPECT_EQ(got.value().rank, 2);
  EXPECT_EQ(got.value().size, 3);
  EXPECT_EQ(got.value().limit, request.limit);
  EXPECT_EQ(got.value().bytes, request.bytes);
}

TEST(ExchangeFrames, ARequestBeyondTheBoundsIsRefusedOnBothSides) {
  for (const Request& request : {Request{"s", 3, 3, 0, {}}, Request{"s", -1, 3, 0, {}}, Request{"s", 0, 0, 0, {}},
                                 Request{"s", 0, kMaxRanks + 1, 0, {}}, Request{"", 0, 1, 0, {}},
                                 Request{std::string(kMaxScopeBytes + 1, 's'), 0, 1, 0, {}},
                                 Request{"s", 0, 1, 0, std::vector<std::byte>(kMaxValueBytes + 1)}}) {
    EXPECT_EQ(check_request(request).code(), Code::invalid_argument);
    EXPECT_FALSE(decode_request(encode_request(request)));
  }
}

TEST(ExchangeFrames, NoCutAndNoNoiseIsTakenForAFrame) {
  const auto frame = encode_request({"scope", 0, 2, 1, std::vector<std::byte>(5)});
  for (std::size_t size = 0; size < frame.size(); ++size) {
    EXPECT_FALSE(decode_request(std::span(frame).first(size)));
  }
  std::mt19937 random(1);
  for (int round = 0; round < 10000; ++round) {
    std::vector<std::byte> noise(random() % 64);
    for (std::byte& byte : noise) {
      byte = static_cast<std::byte>(random());
    }
    (void)decode_request(noise);
    (void)decode_answer(noise);  // whatever they say, they must not read beyond the end
    (void)is_clock_question(noise);
    (void)decode_clock_reading(noise);
  }
}

TEST(ExchangeFrames, AnAnswerIsAValueOrARefusal) {
  const std::vector<std::byte> bytes(3, std::byte{9});
  Result<Answer> value = decode_answer(encode_value(4, bytes));
  ASSERT_TRUE(value);
  EXPECT_TRUE(value->refusal);
  EXPECT_EQ(value->rank, 4);
  EXPECT_EQ(value->bytes, bytes);

  Result<Answer> refusal = decode_answer(encode_refusal(Status::error(Code::timed_out, "too late").with_rank(3)));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->refusal.code(), Code::timed_out);
  EXPECT_EQ(refusal->refusal.message(), "too late");
  EXPECT_EQ(refusal->refusal.failed_rank(), 3);
}

TEST(ExchangeFrames, AClockIsAskedForAndRead) {
  const std::vector<std::byte> question = encode_clock_question();
  EXPECT_TRUE(is_clock_question(question));
  EXPECT_FALSE(decode_request(question));
  EXPECT_FALSE(is_clock_question(encode_request({"scope", 0, 2, 1, {}})));
  EXPECT_FALSE(is_clock_question({}));
  const std::vector<std::byte> frame = encode_clock_reading({-5, "boot"});
  Result<ClockReading> reading = decode_clock_reading(frame);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->now, -5);
  EXPECT_EQ(reading->boot, "boot");
  EXPECT_FALSE(decode_answer(frame));
  for (std::size_t size = 0; size < frame.size(); ++size) {
    EXPECT_FALSE(decode_clock_reading(std::span(frame).first(size)));
  }
}

TEST(ExchangeFrames, ALongRefusalStillFits) {
  EXPECT_LE(encode_refusal(Status::error(Code::timed_out, std::string(100000, 'x'))).size(), kMaxFrameBytes);
}

}  // namespace
}  // namespace ronde::store
