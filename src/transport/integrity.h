// Integrity: how a job's messages are protected against bytes that change on the way.
#pragma once

#include <cstdint>

namespace ronde::transport {

/// What protects the messages of a connection; RONDE_TCP_INTEGRITY.
enum class Integrity : std::uint8_t {
  off,       ///< "off"
  checksum,  ///< "checksum": against what happens by chance
  mac,       ///< "mac": also against who changes, repeats or leaves out packets on purpose
  encrypt,   ///< "encrypt": also against who reads them
};

}  // namespace ronde::transport
