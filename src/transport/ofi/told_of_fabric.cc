#include "transport/ofi/told_of_fabric.h"

#include "base/bytes.h"

namespace ronde::transport {

namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string rank_of(std::size_t rank, const ToldOfFabric& told) {
  return "rank " + std::to_string(rank) + " (host " + told.host + ")";
}

/// For people.
std::string way_of(const ToldOfFabric& told) {
  return "provider " + told.provider + " of libfabric " + told.library + " (protocol " + std::to_string(told.protocol) +
         ", version " + std::to_string(told.protocol_version) + ")";
}

bool go_together(const ToldOfFabric& one, const ToldOfFabric& other) {
  return one.provider == other.provider && one.protocol == other.protocol &&
         one.protocol_version == other.protocol_version && one.fragment_bytes == other.fragment_bytes &&
         one.width == other.width;
}

}  // namespace

std::vector<std::byte> ToldOfFabric::encode() const {
  ByteWriter writer;
  writer.put_string(host);
  writer.put_string(library);
  writer.put_string(provider);
  writer.put(protocol);
  writer.put(protocol_version);
  writer.put(fragment_bytes);
  writer.put(width);
  writer.put(static_cast<std::uint8_t>(needs_bells));
  writer.put_string(text_of(address));
  writer.put_string(failure);
  return writer.take();
}

Result<ToldOfFabric> ToldOfFabric::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  ToldOfFabric told;
  told.host = reader.get_string();
  told.library = reader.get_string();
  told.provider = reader.get_string();
  told.protocol = reader.get<std::uint32_t>();
  told.protocol_version = reader.get<std::uint32_t>();
  told.fragment_bytes = reader.get<std::uint64_t>();
  told.width = reader.get<std::uint64_t>();
  told.needs_bells = reader.get<std::uint8_t>() != 0;
  const std::string address = reader.get_string();
  const auto as_bytes = std::as_bytes(std::span(address));
  told.address.assign(as_bytes.begin(), as_bytes.end());
  told.failure = reader.get_string();
  if (!reader.at_end()) {
    return Status::error(Code::version_mismatch, "what it has told of its fabric cannot be read");
  }
  return told;
}

Status reach_one_fabric(const std::vector<ToldOfFabric>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].failure.empty()) {
      return Status::error(Code::system_error,
                           rank_of(rank, all[rank]) + " cannot use RONDE_TRANSPORT=ofi: " + all[rank].failure)
          .with_rank(static_cast<int>(rank));
    }
  }
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (!go_together(all[0], all[rank])) {
      return Status::error(Code::invalid_argument, "RONDE_TRANSPORT=ofi: " + rank_of(rank, all[rank]) + " has " +
                                                       way_of(all[rank]) + ", but " + rank_of(0, all[0]) + " has " +
                                                       way_of(all[0]) +
                                                       "; all ranks need one: set RONDE_OFI_PROVIDER, and "
                                                       "RONDE_OFI_LIBRARY where hosts have several libraries")
          .with_rank(static_cast<int>(rank));
    }
  }
  return {};
}

}  // namespace ronde::transport
