#include "control/messages.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

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
  request.waited = 4;
  request.position = 23;
  request.descriptor.planned_group = {5, 2};
  request.descriptor.memory_place = 4096;
  request.descriptor.splits = {5, 0, 7};
  request.descriptor.tag = 3;
  request.call_site = "train.py:12";
  request.planning_name = "noname.loss";
  request.call_number = 11;
  const Envelope back = round_trip({3, request});
  EXPECT_EQ(back.group, 3);
  const auto& message = std::get<RequestMessage>(back.message);
  EXPECT_EQ(message.name, request.name);
  EXPECT_EQ(message.descriptor, request.descriptor);
  EXPECT_EQ(message.label, 9u);
  EXPECT_EQ(message.timeout, 17);
  EXPECT_EQ(message.waited, 4);
  EXPECT_EQ(message.position, 23u);
  EXPECT_EQ(message.descriptor.memory_place, 4096);
  EXPECT_EQ(message.descriptor.splits, request.descriptor.splits);
  EXPECT_EQ(message.descriptor.tag, 3);
  EXPECT_EQ(message.call_site, request.call_site);
  EXPECT_EQ(message.planning_name, request.planning_name);
  EXPECT_EQ(message.call_number, 11u);
}

TEST(Messages, EveryLogEntrySurvivesTheWire) {
  EXPECT_FALSE(std::get<LeaveMessage>(round_trip({0, LeaveMessage{}}).message).final);
  EXPECT_TRUE(std::get<LeaveMessage>(round_trip({0, LeaveMessage{true}}).message).final);
  EXPECT_TRUE(std::holds_alternative<AllLeftEntry>(round_trip({0, AllLeftEntry{}}).message));
  EXPECT_EQ(std::get<LeftEntry>(round_trip({0, LeftEntry{5}}).message).member, 5);
  const auto settings = std::get<SettingsEntry>(round_trip({0, SettingsEntry{7, 8, {9, 10}, true}}).message);
  EXPECT_EQ(settings.fusion_threshold, 7u);
  EXPECT_EQ(settings.fusion_small, 8u);
  EXPECT_EQ(settings.limits, (ByteLimits{9, 10}));
  EXPECT_TRUE(settings.ordered);
  const auto error = std::get<ErrorEntry>(round_trip({0, ErrorEntry{"x", Code::timed_out, 2, "why", {0, 3}}}).message);
  EXPECT_EQ(error.name, "x");
  EXPECT_EQ(error.code, Code::timed_out);
  EXPECT_EQ(error.failed_rank, 2);
  EXPECT_EQ(error.text, "why");
  EXPECT_EQ(error.joined, (std::vector<std::int32_t>{0, 3}));
  const auto exec = std::get<ExecEntry>(round_trip({0, ExecEntry{{{"a", {}}, {"b", {{1, 2}, {}}}}}}).message);
  ASSERT_EQ(exec.items.size(), 2u);
  EXPECT_EQ(exec.items[1].name, "b");
  EXPECT_EQ(exec.items[1].rows, (std::vector<std::vector<std::int64_t>>{{1, 2}, {}}));
  EXPECT_EQ(exec.items[1].places, MemoryPlaces{});
  EXPECT_FALSE(exec.items[1].descriptor);
  Descriptor scalar;
  scalar.tensors = {{DType::float64, {}}};
  const auto joined = std::get<ExecEntry>(round_trip({0, ExecEntry{{{"c", {}, {128, 640}, scalar}}}}).message);
  EXPECT_EQ(joined.items.at(0).places, (MemoryPlaces{128, 640}));
  EXPECT_EQ(joined.items.at(0).descriptor, scalar);
}

TEST(Messages, EverythingOfReplaySurvivesTheWire) {
  const auto end = std::get<EndMessage>(round_trip({0, EndMessage{4, 5, {"a", "b"}, {7, 9}, {"p"}}}).message);
  EXPECT_EQ(end.epoch, 4u);
  EXPECT_EQ(end.instances, 5u);
  EXPECT_EQ(end.missing, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(end.crowded, std::vector<std::string>{"p"});
  EXPECT_TRUE(std::holds_alternative<JoinMessage>(round_trip({0, JoinMessage{}}).message));
  const auto prepared = std::get<PreparedMessage>(round_trip({0, PreparedMessage{6, true}}).message);
  EXPECT_EQ(prepared.bucket, 6u);
  EXPECT_TRUE(prepared.refused);
  EXPECT_EQ(std::get<CancelMessage>(round_trip({0, CancelMessage{"x"}}).message).name, "x");
  EXPECT_EQ(std::get<FreeMessage>(round_trip({0, FreeMessage{1 << 20}}).message).bucket, 1u << 20);
  Bucket bucket;
  bucket.id = 7;
  bucket.has_done_words = false;
  bucket.layout = std::string("\0 8192", 6);
  bucket.members = {{"x", {}}, {"y", {}}};
  bucket.members[1].descriptor.tensors = {{DType::float32, {3}}};
  bucket.members[1].places = {64, 192};
  EXPECT_EQ(std::get<PrepareEntry>(round_trip({0, PrepareEntry{bucket}}).message).bucket, bucket);
  const auto install = std::get<InstallEntry>(round_trip({0, InstallEntry{8, {7, 9}}}).message);
  EXPECT_EQ(install.epoch, 8u);
  EXPECT_EQ(install.buckets, (std::vector<std::uint32_t>{7, 9}));
  const auto add = std::get<AddEntry>(round_trip({0, AddEntry{8, {1}}}).message);
  EXPECT_EQ(add.epoch, 8u);
  EXPECT_EQ(add.buckets, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(std::get<RetireEntry>(round_trip({0, RetireEntry{{2}}}).message).buckets, (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(std::get<JoinDoneEntry>(round_trip({0, JoinDoneEntry{3}}).message).last, 3);
  const TableEntry table{{1, 2, 3, 4, std::uint64_t{1} << 40}};
  EXPECT_EQ(std::get<TableEntry>(round_trip({0, table}).message).thresholds, table.thresholds);
}

TEST(Messages, WhatOrderedGroupsSayAndReadSurvivesTheWire) {
  const auto full = std::get<FullMessage>(round_trip({0, FullMessage{1, 2, std::uint64_t{1} << 39, 4}}).message);
  EXPECT_EQ(std::tie(full.epoch, full.bucket, full.instance, full.calls),
            std::tuple(1u, 2u, std::uint64_t{1} << 39, 4u));
  EXPECT_EQ(std::get<FrozenMessage>(round_trip({0, FrozenMessage{5}}).message).epoch, 5u);
  const auto launch = std::get<LaunchEntry>(round_trip({0, LaunchEntry{6, {7, 8}}}).message);
  EXPECT_EQ(launch.epoch, 6u);
  EXPECT_EQ(launch.buckets, (std::vector<std::uint32_t>{7, 8}));
  EXPECT_EQ(std::get<BreakEntry>(round_trip({0, BreakEntry{9}}).message).epoch, 9u);
}

TEST(Messages, WhatPassesBetweenTwoRanksSurvivesTheWire) {
  const OfferMessage offer{7, 2, -3, DType::int8, {2, 3}, "x", std::string("\0\1", 2)};
  const auto offered = std::get<OfferMessage>(round_trip({0, offer}).message);
  EXPECT_EQ(
      std::tie(offered.id, offered.group, offered.tag, offered.dtype, offered.shape, offered.name, offered.payload),
      std::tie(offer.id, offer.group, offer.tag, offer.dtype, offer.shape, offer.name, offer.payload));
  EXPECT_EQ(std::get<AcceptMessage>(round_trip({0, AcceptMessage{8}}).message).id, 8u);
  const PieceMessage piece{9, 4096, 128, "abc"};
  const auto sent = std::get<PieceMessage>(round_trip({0, piece}).message);
  EXPECT_EQ(std::tie(sent.id, sent.bytes, sent.place, sent.payload),
            std::tie(piece.id, piece.bytes, piece.place, piece.payload));
  const auto taken = std::get<TakenMessage>(round_trip({0, TakenMessage{10, 11}}).message);
  EXPECT_EQ(taken.id, 10u);
  EXPECT_EQ(taken.bytes, 11u);
  const GiveUpMessage give_up{12, true, Code::timed_out, "late", 3};
  const auto given = std::get<GiveUpMessage>(round_trip({0, give_up}).message);
  EXPECT_EQ(given.rank, 3);
  EXPECT_EQ(std::tie(given.id, given.by_sender, given.code, given.text),
            std::tie(give_up.id, give_up.by_sender, give_up.code, give_up.text));
}

TEST(Messages, EveryTruncationIsRefused) {
  RequestMessage request;
  request.name = "grad";
  request.descriptor.tensors = {{DType::float32, {2, 3}}};
  for (const Envelope& envelope :
       {Envelope{0, request}, Envelope{0, TableEntry{}}, Envelope{0, OfferMessage{}}, Envelope{0, GiveUpMessage{}}}) {
    const std::vector<std::byte> whole = encode(envelope);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_EQ(decode(std::span(whole).first(length)).status().code(), Code::internal) << length;
    }
    std::vector<std::byte> longer = whole;
    longer.push_back({});
    EXPECT_FALSE(decode(longer));
  }
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
