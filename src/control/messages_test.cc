#include "control/messages.h"

#include <gtest/gtest.h>

namespace ronde::control {
namespace {

Envelope round_trip(const Envelope& envelope) {
  Result<Envelope> decoded = decode(encode(envelope));
  EXPECT_TRUE(decoded) << decoded.status().message();
  return decoded ? *decoded : Envelope{};
}

TEST(Messages, RequestSurvivesTheWire) {
  RequestMessage request;
  request.name = "grad.3";
  request.descriptor.kind = OpKind::broadcast;
  request.descriptor.root = 4;
  request.descriptor.prescale = 0.25;
  request.descriptor.tensors = {{DType::bfloat16, {2, 3}}, {DType::int8, {}}};
  request.label = 9;
  request.timeout = 17;
  const Envelope back = round_trip({3, request});
  EXPECT_EQ(back.group, 3);
  const auto& message = std::get<RequestMessage>(back.message);
  EXPECT_EQ(message.name, request.name);
  EXPECT_EQ(message.descriptor, request.descriptor);
  EXPECT_EQ(message.label, 9u);
  EXPECT_EQ(message.timeout, 17);
}

TEST(Messages, EveryLogEntrySurvivesTheWire) {
  EXPECT_FALSE(std::get<LeaveMessage>(round_trip({0, LeaveMessage{}}).message).final);
  EXPECT_TRUE(std::get<LeaveMessage>(round_trip({0, LeaveMessage{true}}).message).final);
  EXPECT_TRUE(std::holds_alternative<AllLeftEntry>(round_trip({0, AllLeftEntry{}}).message));
  EXPECT_EQ(std::get<LeftEntry>(round_trip({0, LeftEntry{5}}).message).member, 5);
  const auto settings = std::get<SettingsEntry>(round_trip({0, SettingsEntry{7, 8}}).message);
  EXPECT_EQ(settings.fusion_threshold, 7u);
  EXPECT_EQ(settings.fusion_small, 8u);
  const auto error = std::get<ErrorEntry>(round_trip({0, ErrorEntry{"x", Code::timed_out, 2, "why"}}).message);
  EXPECT_EQ(error.name, "x");
  EXPECT_EQ(error.code, Code::timed_out);
  EXPECT_EQ(error.failed_rank, 2);
  EXPECT_EQ(error.text, "why");
  const auto exec = std::get<ExecEntry>(round_trip({0, ExecEntry{{{"a", {}}, {"b", {{1, 2}, {}}}}}}).message);
  ASSERT_EQ(exec.items.size(), 2u);
  EXPECT_EQ(exec.items[1].name, "b");
  EXPECT_EQ(exec.items[1].rows, (std::vector<std::vector<std::int64_t>>{{1, 2}, {}}));
}

TEST(Messages, EveryTruncationIsRefused) {
  RequestMessage request;
  request.name = "grad";
  request.descriptor.tensors = {{DType::float32, {2, 3}}};
  const std::vector<std::byte> whole = encode({0, request});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(decode(std::span(whole).first(length)).status().code(), Code::internal) << length;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back({});
  EXPECT_FALSE(decode(longer));
}

TEST(Messages, UnknownKindAndAbsurdCountsAreRefused) {
  std::vector<std::byte> bytes = encode({0, LeaveMessage{}});
  bytes[0] = std::byte{200};
  EXPECT_FALSE(decode(bytes));
  ByteWriter writer;
  writer.put(std::uint8_t{3});
  writer.put(std::int32_t{0});
  writer.put(std::uint32_t{0xffffffff});
  EXPECT_FALSE(decode(writer.bytes()));
}

}  // namespace
}  // namespace ronde::control
