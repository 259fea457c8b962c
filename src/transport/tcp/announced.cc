#include "transport/tcp/announced.h"

#include "base/bytes.h"

namespace ronde::transport {

std::vector<std::byte> Announced::encode() const {
  ByteWriter writer;
  writer.put(wire_version);
  writer.put_string(library_version);
  writer.put_string(who.host);
  writer.put(static_cast<std::int32_t>(who.pid));
  writer.put_string(address);
  writer.put(port);
  writer.put(integrity);
  writer.put_string(failure);
  return writer.take();
}

Result<Announced> Announced::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Announced announced;
  announced.wire_version = reader.get<std::uint32_t>();
  announced.library_version = reader.get_string();
  if (reader.ok() && (announced.wire_version != kWireVersion || announced.library_version != kVersion)) {
    return Status::error(Code::version_mismatch, "it has Ronde " + announced.library_version + " (wire version " +
                                                     std::to_string(announced.wire_version) + "), this rank " +
                                                     std::string(kVersion) + " (" + std::to_string(kWireVersion) +
                                                     "); all ranks need one version");
  }
  announced.who.host = reader.get_string();
  announced.who.pid = reader.get<std::int32_t>();
  announced.address = reader.get_string();
  announced.port = reader.get<std::uint16_t>();
  announced.integrity = reader.get<std::uint8_t>();
  announced.failure = reader.get_string();
  if (!reader.at_end()) {
    return Status::error(Code::version_mismatch, "what it has told of itself cannot be read");
  }
  return announced.failure.empty() ? Result<Announced>(announced)
                                   : Status::error(Code::system_error, announced.failure);
}

}  // namespace ronde::transport
