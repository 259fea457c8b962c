// What ranks tell each other at the store of how they reach a fabric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/ofi/fragment_window.h"

namespace ronde::transport {

struct ToldOfFabric {
  std::string host;
  std::string library;   ///< libfabric's version
  std::string provider;  ///< its name
  std::uint32_t protocol = 0;
  std::uint32_t protocol_version = 0;
  std::uint64_t fragment_bytes = 0;
  std::uint64_t width = 0;
  bool needs_bells = false;
  std::vector<std::byte> address;  ///< as the provider writes it
  std::string failure;             ///< why this rank reaches none; empty if it does

  std::vector<std::byte> encode() const;
  /// VERSION_MISMATCH if it cannot be read.
  static Result<ToldOfFabric> decode(std::span<const std::byte> bytes);
};

/// Ok if the ranks, whose words these are in their order, reach one fabric. Else one sentence, the same on all ranks:
/// which rank reaches none and why, or which two have what that does not go together.
Status reach_one_fabric(const std::vector<ToldOfFabric>& all);

}  // namespace ronde::transport
