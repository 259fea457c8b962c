// Ofi: pipes over a fabric that libfabric reaches (Slingshot, EFA, Omni-Path, InfiniBand, and TCP by libfabric's own
// way), one to each other rank, for ranks that share no memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "store/store.h"
#include "transport/messages/channels.h"
#include "transport/messages/pipe.h"
#include "transport/peer_info.h"
#include "transport/tcp/tcp.h"

namespace ronde::transport {

struct OfiOptions {
  std::string provider;  ///< RONDE_OFI_PROVIDER; empty: the best that there is (ofi/providers.h)
  bool may_wait = true;  ///< false: as over a provider that has no descriptor to wait on; for tests
};

/// Pipes to other ranks.
struct OfiConnections {
  std::vector<std::unique_ptr<Pipe>> pipes;  ///< by rank; null for those that are not called for, and this one
  std::shared_ptr<SharedNews> shared;        ///< of all of them
  std::vector<PeerInfo> who;                 ///< by rank
  NewsDescriptors news;                      ///< for links over them
};

/// Collective, as connect_by_tcp(), which it calls: each pipe has a connection over TCP beside it. When it returns,
/// each two ranks have heard each other over the fabric.
///
/// Fails on every rank if one cannot take part, with that one's number and what is to be done: there is no libfabric,
/// no provider that is wanted, or ranks have different ones.
Result<OfiConnections> connect_by_ofi(store::Store& store, const JobKey& key, const std::string& scope, int rank,
                                      int size, const std::string& address, const OfiOptions& options,
                                      const TcpOptions& tcp, Nanoseconds limit, std::vector<bool> reached = {});

}  // namespace ronde::transport
