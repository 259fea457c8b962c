#include "control/messages.h"

namespace ronde::control {

namespace {

void write(ByteWriter& writer, const RequestMessage& message) {
  writer.put_string(message.name);
  ronde::write(writer, message.descriptor);
  writer.put(message.label);
  writer.put(message.timeout);
}

void write(ByteWriter& writer, const LeaveMessage& message) {
  writer.put(static_cast<std::uint8_t>(message.final ? 1 : 0));
}

void write(ByteWriter& writer, const SettingsEntry& entry) {
  writer.put(entry.fusion_threshold);
  writer.put(entry.fusion_small);
}

void write(ByteWriter& writer, const ExecEntry& entry) {
  writer.put(static_cast<std::uint32_t>(entry.items.size()));
  for (const ExecEntry::Item& item : entry.items) {
    writer.put_string(item.name);
    writer.put(static_cast<std::uint32_t>(item.rows.size()));
    for (const std::vector<std::int64_t>& rows : item.rows) {
      writer.put(static_cast<std::uint32_t>(rows.size()));
      for (std::int64_t extent : rows) {
        writer.put(extent);
      }
    }
  }
}

void write(ByteWriter& writer, const ErrorEntry& entry) {
  writer.put_string(entry.name);
  writer.put(entry.code);
  writer.put(entry.failed_rank);
  writer.put_string(entry.text);
}

void write(ByteWriter& writer, const LeftEntry& entry) { writer.put(entry.member); }

void write(ByteWriter&, const AllLeftEntry&) {}

RequestMessage read_request(ByteReader& reader) {
  RequestMessage message;
  message.name = reader.get_string();
  message.descriptor = read_descriptor(reader);
  message.label = reader.get<std::uint64_t>();
  message.timeout = reader.get<Nanoseconds>();
  return message;
}

ExecEntry read_exec(ByteReader& reader) {
  ExecEntry entry;
  entry.items.resize(reader.get_count(8));
  for (ExecEntry::Item& item : entry.items) {
    item.name = reader.get_string();
    item.rows.resize(reader.get_count(4));
    for (std::vector<std::int64_t>& rows : item.rows) {
      rows.resize(reader.get_count(8));
      for (std::int64_t& extent : rows) {
        extent = reader.get<std::int64_t>();
      }
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
  return entry;
}

/// The index of an alternative of Message is its number on the wire: append new ones, never reorder.
Message read_message(std::uint8_t kind, ByteReader& reader) {
  switch (kind) {
    case 0: return read_request(reader);
    case 2: {
      SettingsEntry entry;
      entry.fusion_threshold = reader.get<std::uint64_t>();
      entry.fusion_small = reader.get<std::uint64_t>();
      return entry;
    }
    case 3: return read_exec(reader);
    case 4: return read_error(reader);
    case 5: return LeftEntry{reader.get<std::int32_t>()};
    case 6: return AllLeftEntry{};
    default: return LeaveMessage{reader.get<std::uint8_t>() != 0};
  }
}

}  // namespace

std::vector<std::byte> encode(const Envelope& envelope) {
  ByteWriter writer;
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
