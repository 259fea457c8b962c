// Settings: what the environment says about an engine, read once at init.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "transport/integrity.h"
#include "types/fusion.h"

namespace ronde::engine {

struct Settings {
  /// RONDE_TIMEOUT_S: limit of a request that has none of its own. 0: none.
  Nanoseconds timeout = 1800 * kSecond;
  /// RONDE_STALL_S: after this long a waiting tensor is reported, again and again. 0: never.
  Nanoseconds stall = 60 * kSecond;
  /// RONDE_INIT_TIMEOUT_S: how long init waits for the other ranks.
  Nanoseconds init_timeout = 60 * kSecond;
  /// How long a collective shutdown waits for the other ranks.
  Nanoseconds shutdown_timeout = 10 * kSecond;
  /// How long a survivor waits for the others to be quiet before it reports a death all the same.
  Nanoseconds quiet_timeout = 500 * kMillisecond;
  /// RONDE_FUSION_THRESHOLD: bytes of a fused plan at most; 0: nothing is fused. The coordinator's value is everyone's.
  std::uint64_t fusion_threshold = kFusionThreshold;
  /// RONDE_REPLAY: 0 keeps every request in negotiation, that is, agreed by messages each time. The coordinator's value
  /// is everyone's.
  bool replay = true;
  /// RONDE_PROBE: 0 neither measures the table of thresholds in the background nor uses one that was measured.
  bool probe = true;
  /// RONDE_TRANSPORT: through what the ranks reach each other. All ranks need the same.
  enum class Medium {
    as_they_meet,   ///< memory where they meet in a store of one host, else as `hosts`
    shared_memory,  ///< "shm": all ranks are on one host
    hosts,          ///< "hosts": memory between ranks that find that they can share it, else TCP
    tcp,            ///< "tcp": connections, also where memory could be shared
    ofi,            ///< "ofi": as `hosts`, with a fabric that libfabric reaches in the place of TCP
  } medium = Medium::as_they_meet;
  /// RONDE_BACKEND: a library that reduces and moves what it can. All ranks need the same.
  enum class Library {
    none,    ///< "own", or nothing: Ronde does all
    mpi,     ///< "mpi": the site's
    oneccl,  ///< "oneccl": Intel's oneCCL
  } library = Library::none;
  /// RONDE_ADDRESS: where this rank listens while ranks connect, as numbers of IPv4 or IPv6; others must reach it
  /// there. Empty: found out.
  std::string address;
  /// RONDE_HOST_TIMEOUT_S: over TCP, a host of which nothing has been heard for so long has vanished. 0: never.
  Nanoseconds host_timeout = 10 * kSecond;
  /// RONDE_HOST_ID: ranks with different ones share no memory, whatever they could.
  std::string host_id;
  /// RONDE_TCP_INTEGRITY: "off", "checksum", "mac" or "encrypt", of what goes over TCP or libfabric. All ranks need the
  /// same.
  transport::Integrity integrity = transport::Integrity::checksum;
  /// RONDE_TCP_CONGESTION: the congestion control of connections between hosts by Linux' name, or "system". Empty: the
  /// system's, but for BBR where the peer is near.
  std::string congestion_control;
  /// RONDE_OFI_PROVIDER: which of libfabric's providers, where the ranks reach each other through libfabric. Empty: the
  /// best that there is. All ranks need the same.
  std::string ofi_provider;
  /// RONDE_TIMELINE: from init on a timeline is written here; empty: none.
  std::string timeline;
  /// RONDE_TIMELINE_MARK_CYCLES: with an event for each batch of agreed requests.
  bool mark_cycles = false;
  std::uint64_t fusion_small = kFusionSmall;
};

/// INVALID_ARGUMENT with variable, value and what was expected if one cannot be read.
Result<Settings> settings_from_environment();

}  // namespace ronde::engine
