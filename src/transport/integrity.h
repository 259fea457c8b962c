// Integrity: how a job's messages are protected against bytes that change on the way.
#pragma once

#include <cstdint>

namespace ronde::transport {

/// What protects the messages of a connection; RONDE_TCP_INTEGRITY.
enum class Integrity : std::uint8_t {
  off,       ///< "off"
  checksum,  ///< "checksum": against what happens by chance
};

}  // namespace ronde::transport
