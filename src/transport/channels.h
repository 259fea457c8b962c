// Channels: the links of a job, and of its groups, over one pipe to each other rank, whatever the pipes are.
#pragma once

#include <memory>
#include <vector>

#include "transport/arena.h"
#include "transport/pipe.h"
#include "transport/tcp/silence.h"
#include "transport/transport.h"

namespace ronde::transport {

/// What connects one rank with all others. Any thread.
struct JobLinks {
  GroupLinks job;
  std::shared_ptr<LinksForGroups> groups;
  std::vector<PeerInfo> who;  ///< by rank
};

/// Over the pipes to all ranks, this rank's own being null. The last of these links to go sends what is kept, for up to
/// half a second, and lets go of what lies `beneath` the pipes then. A link whose peer's host has vanished, by
/// `timeout`, has ended.
JobLinks links_over(std::vector<std::unique_ptr<Pipe>> pipes, std::vector<PeerInfo> who, const HostTimeout& timeout,
                    std::shared_ptr<void> beneath = nullptr);

}  // namespace ronde::transport
