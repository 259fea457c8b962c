// Hosts: which ranks of a job share memory, and links between all of them: over rings in shared memory where they do,
// over TCP, or a fabric that libfabric reaches, where they do not.
//
// That two ranks are of one host is proved, not told: one reaches the other's socket in the kernel's own name space
// (an abstract Unix socket under a random name, which no other host and no other network namespace has), and memory
// passed over it can be mapped. Equal host names, process numbers or boot ids prove nothing (containers), different
// ones neither. What the user says (RONDE_HOST_ID) only keeps ranks apart.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "store/store.h"
#include "transport/arena/arena.h"
#include "transport/messages/channels.h"
#include "transport/messages/pipe.h"
#include "transport/ofi/ofi.h"
#include "transport/tcp/tcp.h"

namespace ronde::transport {

struct Hosts {
  std::vector<int> first_of;         ///< by rank: the lowest rank that it shares memory with, itself if with none
  std::shared_ptr<HostArena> arena;  ///< of the ranks of this host, in their order; null if there is one only

  int count() const;
  /// The ranks of the host of `rank`, in order.
  std::vector<int> members(int rank) const;
};

/// What a rank says of itself.
struct HostClaim {
  std::string id;      ///< ranks with different ones share no memory
  int local_size = 1;  ///< how many ranks its launcher has told it are on this host
};

/// Collective among the `size` ranks of a job, who meet in the store under `scope` and scopes that begin with it, with
/// one result. Ranks that are of one host by their claims, but can share no memory, are hosts of their own, and the log
/// of one of them says so and why. Blocks up to `limit`; TIMED_OUT names the ranks that did not come.
Result<Hosts> find_hosts(store::Store& store, const JobKey& key, const std::string& scope, int rank, int size,
                         const HostClaim& claim, Nanoseconds limit);

struct HostLinks {
  JobLinks links;
  /// For the engine of this rank: its bell is rung for what comes from ranks of this host.
  std::shared_ptr<HostArena> own;
};

/// Collective, with what find_hosts() has found; the rest as connect_by_tcp(), or, if `ofi` is given, connect_by_ofi().
/// Requires: more than one host.
Result<HostLinks> connect_hosts(store::Store& store, const JobKey& key, const std::string& scope, int rank, int size,
                                const std::string& address, const Hosts& hosts, const TcpOptions& options,
                                Nanoseconds limit, const std::optional<OfiOptions>& ofi = std::nullopt);

/// The part of connect_hosts() that needs no store: links over these pipes to ranks of other hosts, and over the arena
/// to those of this host. The arena is used by nobody else. `shared`: what the pipes share, if anything.
HostLinks links_between(std::vector<std::unique_ptr<Pipe>> pipes, std::vector<PeerInfo> who, int rank,
                        const Hosts& hosts, const HostTimeout& timeout, NewsDescriptors news,
                        std::shared_ptr<SharedNews> shared = nullptr);

}  // namespace ronde::transport
