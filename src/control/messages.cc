#include "control/messages.h"

#include <utility>

#include "base/records.h"

namespace ronde {

// ---- What messages are made of

template <>
inline constexpr auto kFields<MemoryPlace> = std::tuple(&MemoryPlace::input, &MemoryPlace::output);

template <>
inline constexpr auto kFields<ByteLimits> = std::tuple(&ByteLimits::inline_max, &ByteLimits::staged_max);

template <>
inline constexpr auto kFields<Thresholds> = std::tuple(&Thresholds::inlined, &Thresholds::one_shot, &Thresholds::staged,
                                                       &Thresholds::chunk, &Thresholds::stream);

template <>
inline constexpr auto kFields<Descriptor::Spec> = std::tuple(&Descriptor::Spec::dtype, &Descriptor::Spec::shape);

template <>
inline constexpr auto kFields<PlannedGroup> = std::tuple(&PlannedGroup::id, &PlannedGroup::size);

template <>
inline constexpr auto kFields<Descriptor> = std::tuple(&Descriptor::kind, &Descriptor::reduce_op, &Descriptor::root,
                                                       &Descriptor::prescale, &Descriptor::postscale,
                                                       &Descriptor::tensors, &Descriptor::planned_group,
                                                       &Descriptor::memory_place, &Descriptor::splits,
                                                       &Descriptor::tag);

template <>
inline constexpr auto kFields<BucketMember> = std::tuple(&BucketMember::name, &BucketMember::descriptor,
                                                         &BucketMember::places, &BucketMember::planning_name,
                                                         &BucketMember::turn);

template <>
inline constexpr auto kFields<Bucket> = std::tuple(&Bucket::id, &Bucket::has_done_words, &Bucket::layout,
                                                   &Bucket::members);

// ---- The messages: each one's fields in their order on the wire

using namespace control;  // NOLINT: kFields is specialised where it was declared

template <>
inline constexpr auto kFields<RequestMessage> = std::tuple(&RequestMessage::name, &RequestMessage::descriptor,
                                                           &RequestMessage::label, &RequestMessage::timeout,
                                                           &RequestMessage::position, &RequestMessage::call_site,
                                                           &RequestMessage::planning_name, &RequestMessage::call_number,
                                                           &RequestMessage::waited);

template <>
inline constexpr auto kFields<LeaveMessage> = std::tuple(&LeaveMessage::final);

template <>
inline constexpr auto kFields<SettingsEntry> = std::tuple(&SettingsEntry::fusion_threshold,
                                                          &SettingsEntry::fusion_small, &SettingsEntry::limits,
                                                          &SettingsEntry::ordered);

template <>  // is_own is not sent
inline constexpr auto kFields<ExecEntry::Item> = std::tuple(&ExecEntry::Item::name, &ExecEntry::Item::rows,
                                                            &ExecEntry::Item::places, &ExecEntry::Item::descriptor);

template <>
inline constexpr auto kFields<ExecEntry> = std::tuple(&ExecEntry::items);

template <>
inline constexpr auto kFields<ErrorEntry> = std::tuple(&ErrorEntry::name, &ErrorEntry::code, &ErrorEntry::failed_rank,
                                                       &ErrorEntry::text, &ErrorEntry::joined);

template <>
inline constexpr auto kFields<LeftEntry> = std::tuple(&LeftEntry::member);

template <>
inline constexpr auto kFields<AllLeftEntry> = std::tuple();

template <>
inline constexpr auto kFields<EndMessage> = std::tuple(&EndMessage::epoch, &EndMessage::instances, &EndMessage::missing,
                                                       &EndMessage::unused, &EndMessage::crowded);

template <>
inline constexpr auto kFields<JoinMessage> = std::tuple(&JoinMessage::last_call);

template <>
inline constexpr auto kFields<PreparedMessage> = std::tuple(&PreparedMessage::bucket, &PreparedMessage::refused);

template <>
inline constexpr auto kFields<FreeMessage> = std::tuple(&FreeMessage::bucket);

template <>
inline constexpr auto kFields<PrepareEntry> = std::tuple(&PrepareEntry::bucket);

template <>
inline constexpr auto kFields<InstallEntry> = std::tuple(&InstallEntry::epoch, &InstallEntry::buckets);

template <>
inline constexpr auto kFields<AddEntry> = std::tuple(&AddEntry::epoch, &AddEntry::buckets);

template <>
inline constexpr auto kFields<LaunchEntry> = std::tuple(&LaunchEntry::epoch, &LaunchEntry::buckets);

template <>
inline constexpr auto kFields<BreakEntry> = std::tuple(&BreakEntry::epoch);

template <>
inline constexpr auto kFields<FullMessage> = std::tuple(&FullMessage::epoch, &FullMessage::bucket,
                                                        &FullMessage::instance, &FullMessage::calls);

template <>
inline constexpr auto kFields<FrozenMessage> = std::tuple(&FrozenMessage::epoch);

template <>
inline constexpr auto kFields<RetireEntry> = std::tuple(&RetireEntry::buckets);

template <>
inline constexpr auto kFields<JoinDoneEntry> = std::tuple(&JoinDoneEntry::last, &JoinDoneEntry::restarts);

template <>
inline constexpr auto kFields<TableEntry> = std::tuple(&TableEntry::thresholds);

template <>
inline constexpr auto kFields<OfferMessage> = std::tuple(&OfferMessage::id, &OfferMessage::group, &OfferMessage::tag,
                                                         &OfferMessage::dtype, &OfferMessage::shape,
                                                         &OfferMessage::name, &OfferMessage::payload);

template <>
inline constexpr auto kFields<AcceptMessage> = std::tuple(&AcceptMessage::id);

template <>
inline constexpr auto kFields<PieceMessage> = std::tuple(&PieceMessage::id, &PieceMessage::bytes, &PieceMessage::place,
                                                         &PieceMessage::payload);

template <>
inline constexpr auto kFields<TakenMessage> = std::tuple(&TakenMessage::id, &TakenMessage::bytes);

template <>
inline constexpr auto kFields<RefusedMessage> = std::tuple(&RefusedMessage::name, &RefusedMessage::text);

template <>
inline constexpr auto kFields<CancelMessage> = std::tuple(&CancelMessage::name);

template <>
inline constexpr auto kFields<GiveUpMessage> = std::tuple(&GiveUpMessage::id, &GiveUpMessage::by_sender,
                                                          &GiveUpMessage::code, &GiveUpMessage::text,
                                                          &GiveUpMessage::rank);

}  // namespace ronde

namespace ronde::control {

namespace {

/// The index of an alternative of Message is its number on the wire: append new ones, never reorder. Requires: there is
/// one of this number.
template <std::size_t kKind = 0>
Message read_message(std::uint8_t kind, ByteReader& reader) {
  if constexpr (kKind + 1 < std::variant_size_v<Message>) {
    if (kind != kKind) {
      return read_message<kKind + 1>(kind, reader);
    }
  }
  std::variant_alternative_t<kKind, Message> message;
  get(reader, message);
  return message;
}

}  // namespace

std::vector<std::byte> encode(const Envelope& envelope) {
  constexpr std::size_t kMostMessages = 256;  // otherwise half a dozen allocations each
  ByteWriter writer(kMostMessages);
  writer.put(static_cast<std::uint8_t>(envelope.message.index()));
  writer.put(envelope.group);
  std::visit([&](const auto& message) { put(writer, message); }, envelope.message);
  return writer.take();
}

Result<Envelope> decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto kind = reader.get<std::uint8_t>();
  Envelope envelope;
  envelope.group = reader.get<std::int32_t>();
  if (reader.ok() && kind < std::variant_size_v<Message>) {
    envelope.message = read_message(kind, reader);
    if (reader.at_end()) {
      return envelope;
    }
  }
  return Status::error(Code::internal, "a control message of " + std::to_string(bytes.size()) + " bytes and kind " +
                                           std::to_string(kind) + " cannot be read");
}

}  // namespace ronde::control
