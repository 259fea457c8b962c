// Tcp: links over TCP connections, one to each other rank, for ranks that share no memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "store/store.h"
#include "transport/arena.h"
#include "transport/tcp/checksum.h"
#include "transport/tcp/silence.h"
#include "transport/transport.h"

namespace ronde::transport {

/// What connects one rank with all others. Any thread.
struct TcpLinks {
  GroupLinks job;
  std::shared_ptr<LinksForGroups> groups;
  std::vector<PeerInfo> who;  ///< by rank
};

struct TcpOptions {
  HostTimeout timeout;
  Integrity integrity = Integrity::checksum;  ///< the same on all ranks
};

/// Over connected and authenticated sockets, by rank; this rank's own is not open. The last of these links to go sends
/// what is kept, for up to half a second. A link whose peer's host has vanished, by the timeout, has ended.
/// SYSTEM_ERROR if the kernel gives no more descriptors.
Result<TcpLinks> links_over(std::vector<UniqueFd> sockets, std::vector<PeerInfo> who, const TcpOptions& options);

/// Collective among `size` ranks, who meet in the store under `scope` and scopes that begin with it. Each listens at
/// `address` (numbers of IPv4 or IPv6, no name) while they meet, and there only; each connection begins with a proof
/// of both sides that they have the job's key, and are the ranks of this meeting that they say they are, before
/// anything else is read from it (greeting.h). Blocks up to `limit`.
///
/// Fails on every rank if one cannot take part, with that one's number: VERSION_MISMATCH, SYSTEM_ERROR. TIMED_OUT names
/// the ranks that did not come or cannot be reached.
Result<TcpLinks> meet_by_tcp(store::Store& store, const JobKey& key, const std::string& scope, int rank, int size,
                             const std::string& address, const TcpOptions& options, Nanoseconds limit);

}  // namespace ronde::transport
