#include "control/messages.h"

namespace ronde::control {

namespace {

void write(ByteWriter& writer, const RequestMessage& message) {
  writer.put_string(message.name);
  ronde::write(writer, message.descriptor);
  writer.put(message.label);
  writer.put(message.timeout);
  writer.put(message.position);
  writer.put_string(message.call_site);
  writer.put_string(message.planning_name);
  writer.put(message.call_number);
  writer.put(message.waited);
}

void write(ByteWriter& writer, const LeaveMessage& message) {
  writer.put(static_cast<std::uint8_t>(message.final ? 1 : 0));
}

void write(ByteWriter& writer, const SettingsEntry& entry) {
  writer.put(entry.fusion_threshold);
  writer.put(entry.fusion_small);
  writer.put(entry.limits.inline_max);
  writer.put(entry.limits.staged_max);
  writer.put(static_cast<std::uint8_t>(entry.ordered ? 1 : 0));
}

void write(ByteWriter& writer, const ExecEntry& entry) {
  writer.put(static_cast<std::uint32_t>(entry.items.size()));
  for (const ExecEntry::Item& item : entry.items) {
    writer.put_string(item.name);
    writer.put(static_cast<std::uint32_t>(item.rows.size()));
    for (const std::vector<std::int64_t>& rows : item.rows) {
      write_numbers(writer, rows);
    }
    write(writer, item.places);
    writer.put(static_cast<std::uint8_t>(item.descriptor ? 1 : 0));
    if (item.descriptor) {
      ronde::write(writer, *item.descriptor);
    }
  }
}

void write(ByteWriter& writer, const ErrorEntry& entry) {
  writer.put_string(entry.name);
  writer.put(entry.code);
  writer.put(entry.failed_rank);
  writer.put_string(entry.text);
  write_numbers(writer, entry.joined);
}

void write(ByteWriter& writer, const LeftEntry& entry) { writer.put(entry.member); }

void write(ByteWriter&, const AllLeftEntry&) {}

void write_names(ByteWriter& writer, const std::vector<std::string>& names) {
  writer.put(static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) {
    writer.put_string(name);
  }
}

void write(ByteWriter& writer, const EndMessage& message) {
  writer.put(message.epoch);
  writer.put(message.instances);
  write_names(writer, message.missing);
  write_numbers(writer, message.unused);
  write_names(writer, message.crowded);
}

void write(ByteWriter& writer, const JoinMessage& message) { writer.put(message.last_call); }

void write(ByteWriter& writer, const PreparedMessage& message) {
  writer.put(message.bucket);
  writer.put(static_cast<std::uint8_t>(message.refused ? 1 : 0));
}

void write(ByteWriter& writer, const FreeMessage& message) { writer.put(message.bucket); }

void write(ByteWriter& writer, const PrepareEntry& entry) { ronde::write(writer, entry.bucket); }

void write(ByteWriter& writer, const InstallEntry& entry) {
  writer.put(entry.epoch);
  write_numbers(writer, entry.buckets);
}

void write(ByteWriter& writer, const AddEntry& entry) {
  writer.put(entry.epoch);
  write_numbers(writer, entry.buckets);
}

void write(ByteWriter& writer, const LaunchEntry& entry) {
  writer.put(entry.epoch);
  write_numbers(writer, entry.buckets);
}

void write(ByteWriter& writer, const BreakEntry& entry) { writer.put(entry.epoch); }

void write(ByteWriter& writer, const FullMessage& message) {
  writer.put(message.epoch);
  writer.put(message.bucket);
  writer.put(message.instance);
  writer.put(message.calls);
}

void write(ByteWriter& writer, const FrozenMessage& message) { writer.put(message.epoch); }

void write(ByteWriter& writer, const RetireEntry& entry) { write_numbers(writer, entry.buckets); }

void write(ByteWriter& writer, const JoinDoneEntry& entry) {
  writer.put(entry.last);
  writer.put(entry.restarts);
}

void write(ByteWriter& writer, const TableEntry& entry) {
  const Thresholds& row = entry.thresholds;
  for (std::uint64_t bytes : {row.inlined, row.one_shot, row.staged, row.chunk, row.stream}) {
    writer.put(bytes);
  }
}

void write(ByteWriter& writer, const OfferMessage& message) {
  writer.put(message.id);
  writer.put(message.group);
  writer.put(message.tag);
  writer.put(message.dtype);
  write_numbers(writer, message.shape);
  writer.put_string(message.name);
  writer.put_string(message.payload);
}

void write(ByteWriter& writer, const AcceptMessage& message) { writer.put(message.id); }

void write(ByteWriter& writer, const PieceMessage& message) {
  writer.put(message.id);
  writer.put(message.bytes);
  writer.put(message.place);
  writer.put_string(message.payload);
}

void write(ByteWriter& writer, const TakenMessage& message) {
  writer.put(message.id);
  writer.put(message.bytes);
}

void write(ByteWriter& writer, const RefusedMessage& message) {
  writer.put_string(message.name);
  writer.put_string(message.text);
}

void write(ByteWriter& writer, const CancelMessage& message) { writer.put_string(message.name); }

void write(ByteWriter& writer, const GiveUpMessage& message) {
  writer.put(message.id);
  writer.put(static_cast<std::uint8_t>(message.by_sender ? 1 : 0));
  writer.put(message.code);
  writer.put_string(message.text);
  writer.put(message.rank);
}

RequestMessage read_request(ByteReader& reader) {
  RequestMessage message;
  message.name = reader.get_string();
  message.descriptor = read_descriptor(reader);
  message.label = reader.get<std::uint64_t>();
  message.timeout = reader.get<Nanoseconds>();
  message.position = reader.get<std::uint64_t>();
  message.call_site = reader.get_string();
  message.planning_name = reader.get_string();
  message.call_number = reader.get<std::uint64_t>();
  message.waited = reader.get<Nanoseconds>();
  return message;
}

ExecEntry read_exec(ByteReader& reader) {
  ExecEntry entry;
  entry.items.resize(reader.get_count(8));
  for (ExecEntry::Item& item : entry.items) {
    item.name = reader.get_string();
    item.rows.resize(reader.get_count(4));
    for (std::vector<std::int64_t>& rows : item.rows) {
      rows = read_numbers<std::int64_t>(reader);
    }
    item.places = read_memory_places(reader);
    if (reader.get<std::uint8_t>() != 0) {
      item.descriptor = read_descriptor(reader);
    }
  }
  return entry;
}

ErrorEntry read_error(ByteReader& reader) {
  ErrorEntry entry;
  entry.name = reader.get_string();
  entry.code = reader.get<Code>();
  entry.failed_rank = reader.get<std::int32_t>();
  entry.text = reader.get_string();
  entry.joined = read_numbers<std::int32_t>(reader);
  return entry;
}

std::vector<std::string> read_names(ByteReader& reader) {
  std::vector<std::string> names(reader.get_count(4));
  for (std::string& name : names) {
    name = reader.get_string();
  }
  return names;
}

EndMessage read_end(ByteReader& reader) {
  EndMessage message;
  message.epoch = reader.get<std::uint32_t>();
  message.instances = reader.get<std::uint64_t>();
  message.missing = read_names(reader);
  message.unused = read_numbers<std::uint32_t>(reader);
  message.crowded = read_names(reader);
  return message;
}

SettingsEntry read_settings(ByteReader& reader) {
  SettingsEntry entry;
  entry.fusion_threshold = reader.get<std::uint64_t>();
  entry.fusion_small = reader.get<std::uint64_t>();
  entry.limits.inline_max = reader.get<std::uint64_t>();
  entry.limits.staged_max = reader.get<std::uint64_t>();
  entry.ordered = reader.get<std::uint8_t>() != 0;
  return entry;
}

TableEntry read_table(ByteReader& reader) {
  Thresholds row;
  for (std::uint64_t* bytes : {&row.inlined, &row.one_shot, &row.staged, &row.chunk, &row.stream}) {
    *bytes = reader.get<std::uint64_t>();
  }
  return {row};
}

/// INSTALL, ADD and LAUNCH.
template <typename Entry>
Entry read_of_epoch(ByteReader& reader) {
  Entry entry;
  entry.epoch = reader.get<std::uint32_t>();
  entry.buckets = read_numbers<std::uint32_t>(reader);
  return entry;
}

FullMessage read_full(ByteReader& reader) {
  FullMessage message;
  message.epoch = reader.get<std::uint32_t>();
  message.bucket = reader.get<std::uint32_t>();
  message.instance = reader.get<std::uint64_t>();
  message.calls = reader.get<std::uint64_t>();
  return message;
}

PreparedMessage read_prepared(ByteReader& reader) {
  PreparedMessage message;
  message.bucket = reader.get<std::uint32_t>();
  message.refused = reader.get<std::uint8_t>() != 0;
  return message;
}

OfferMessage read_offer(ByteReader& reader) {
  OfferMessage message;
  message.id = reader.get<std::uint64_t>();
  message.group = reader.get<std::int32_t>();
  message.tag = reader.get<std::int32_t>();
  message.dtype = reader.get<DType>();
  message.shape = read_numbers<std::int64_t>(reader);
  message.name = reader.get_string();
  message.payload = reader.get_string();
  return message;
}

PieceMessage read_piece(ByteReader& reader) {
  PieceMessage message;
  message.id = reader.get<std::uint64_t>();
  message.bytes = reader.get<std::uint64_t>();
  message.place = reader.get<std::int64_t>();
  message.payload = reader.get_string();
  return message;
}

TakenMessage read_taken(ByteReader& reader) {
  TakenMessage message;
  message.id = reader.get<std::uint64_t>();
  message.bytes = reader.get<std::uint64_t>();
  return message;
}

GiveUpMessage read_give_up(ByteReader& reader) {
  GiveUpMessage message;
  message.id = reader.get<std::uint64_t>();
  message.by_sender = reader.get<std::uint8_t>() != 0;
  message.code = reader.get<Code>();
  message.text = reader.get_string();
  message.rank = reader.get<std::int32_t>();
  return message;
}

JoinDoneEntry read_join_done(ByteReader& reader) {
  JoinDoneEntry entry;
  entry.last = reader.get<std::int32_t>();
  entry.restarts = reader.get<std::uint64_t>();
  return entry;
}

RefusedMessage read_refused(ByteReader& reader) {
  RefusedMessage message;
  message.name = reader.get_string();
  message.text = reader.get_string();
  return message;
}

/// The index of an alternative of Message is its number on the wire: append new ones, never reorder.
Message read_message(std::uint8_t kind, ByteReader& reader) {
  switch (kind) {
    case 0: return read_request(reader);
    case 2: return read_settings(reader);
    case 3: return read_exec(reader);
    case 4: return read_error(reader);
    case 5: return LeftEntry{reader.get<std::int32_t>()};
    case 6: return AllLeftEntry{};
    case 7: return read_end(reader);
    case 8: return JoinMessage{reader.get<std::uint64_t>()};
    case 9: return read_prepared(reader);
    case 10: return FreeMessage{reader.get<std::uint32_t>()};
    case 11: return PrepareEntry{read_bucket(reader)};
    case 12: return read_of_epoch<InstallEntry>(reader);
    case 13: return read_of_epoch<AddEntry>(reader);
    case 14: return RetireEntry{read_numbers<std::uint32_t>(reader)};
    case 15: return read_join_done(reader);
    case 16: return read_table(reader);
    case 17: return read_offer(reader);
    case 18: return AcceptMessage{reader.get<std::uint64_t>()};
    case 19: return read_piece(reader);
    case 20: return read_taken(reader);
    case 21: return read_give_up(reader);
    case 22: return read_refused(reader);
    case 23: return CancelMessage{reader.get_string()};
    case 24: return read_full(reader);
    case 25: return FrozenMessage{reader.get<std::uint32_t>()};
    case 26: return read_of_epoch<LaunchEntry>(reader);
    case 27: return BreakEntry{reader.get<std::uint32_t>()};
    default: return LeaveMessage{reader.get<std::uint8_t>() != 0};
  }
}

}  // namespace

std::vector<std::byte> encode(const Envelope& envelope) {
  constexpr std::size_t kMostMessages = 256;  // otherwise half a dozen allocations each
  ByteWriter writer(kMostMessages);
  writer.put(static_cast<std::uint8_t>(envelope.message.index()));
  writer.put(envelope.group);
  std::visit([&](const auto& message) { write(writer, message); }, envelope.message);
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
