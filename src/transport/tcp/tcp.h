// Tcp: connections over TCP, one to each other rank, for ranks that share no memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "store/store.h"
#include "transport/host_timeout.h"
#include "transport/integrity.h"
#include "transport/messages/channels.h"
#include "transport/messages/pipe.h"
#include "transport/peer_info.h"
#include "transport/tcp/tcp_connection.h"

namespace ronde::transport {

/// Connections with other ranks.
struct TcpConnections {
  std::vector<TcpConnection> connections;  ///< by rank; not open to those that are not called for, and to this one
  std::vector<PeerInfo> who;               ///< by rank
  NewsDescriptors news;                    ///< for links over them
};

struct TcpOptions {
  HostTimeout timeout;
  Integrity integrity = Integrity::checksum;  ///< the same on all ranks
  std::string congestion_control = {};        ///< congestion.h's name
};

/// Collective among `size` ranks, who meet in the store under `scope` and scopes that begin with it. Each listens at
/// `address` (numbers of IPv4 or IPv6, no name) while they meet, and there only; each connection begins with a proof
/// of both sides that they have the job's key, and are the ranks of this meeting that they say they are, before
/// anything else is read from it (greeting.h). Blocks up to `limit`.
///
/// Fails on every rank if one cannot take part, with that one's number: VERSION_MISMATCH, SYSTEM_ERROR. TIMED_OUT names
/// the ranks that did not come or cannot be reached.
///
/// `reached`: whom this rank reaches otherwise, so that it needs no connection with it; both ends say so of each other.
/// A link whose peer's host has vanished, by the timeout, has ended.
Result<TcpConnections> connect_by_tcp(store::Store& store, const JobKey& key, const std::string& scope, int rank,
                                      int size, const std::string& address, const TcpOptions& options,
                                      Nanoseconds limit, std::vector<bool> reached = {});

/// A pipe over each connection that is open; the rest are null.
std::vector<std::unique_ptr<Pipe>> streams_over(std::vector<TcpConnection> connections, Integrity integrity);

/// The same with connections between all, and links over these.
Result<JobLinks> meet_by_tcp(store::Store& store, const JobKey& key, const std::string& scope, int rank, int size,
                             const std::string& address, const TcpOptions& options, Nanoseconds limit);

}  // namespace ronde::transport
