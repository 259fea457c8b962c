// What ranks tell each other at the store before they connect by TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/version.h"
#include "transport/peer_info.h"

namespace ronde::transport {

/// The version of what goes over connections, raised when the meaning or form of any byte changes.
inline constexpr std::uint32_t kWireVersion = 2;

struct Announced {
  std::uint32_t wire_version = kWireVersion;
  std::string library_version = std::string(kVersion);
  PeerInfo who;
  std::string address;  ///< at which it listens
  std::uint16_t port = 0;
  std::uint8_t integrity = 0;  ///< an Integrity (integrity.h)
  std::string failure;         ///< why it cannot take part; empty if it can

  std::vector<std::byte> encode() const;
  /// VERSION_MISMATCH, with both versions, if the rank has another one, whatever follows in the bytes: the versions
  /// come first in every one. The rank's own failure as SYSTEM_ERROR.
  static Result<Announced> decode(std::span<const std::byte> bytes);
};

}  // namespace ronde::transport
