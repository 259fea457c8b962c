// Channels: the links of a job, and of its groups, over one pipe to each other rank, whatever the pipes are.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "transport/host_timeout.h"
#include "transport/messages/pipe.h"
#include "transport/peer_info.h"
#include "transport/transport.h"

namespace ronde::transport {

/// What connects one rank with all others. Any thread.
struct JobLinks {
  GroupLinks job;
  std::shared_ptr<LinksForGroups> groups;
  std::vector<PeerInfo> who;  ///< by rank
};

/// What news of pipes are waited for with. Made before links are, while a rank can still say that it has none.
struct NewsDescriptors {
  UniqueFd epoll;
  UniqueFd timer;

  /// SYSTEM_ERROR if the kernel gives no more descriptors.
  static Result<NewsDescriptors> make();
};

/// News that all pipes of a rank have in common, as where they share one queue of what has come. Used under the lock of
/// the links over them.
class SharedNews {
 public:
  virtual ~SharedNews() = default;
  struct Watched {
    int fd;
    bool is_edge;  ///< its becoming readable alone is news: it may stay so
  };
  /// Readable when look() has something to do, and, but for edges, while it has. Watched as long as this lives.
  virtual std::vector<Watched> descriptors() const = 0;
  /// One of them has become readable.
  virtual void note_events() = 0;
  /// Gives each pipe what has come for it. What comes afterwards makes a descriptor readable.
  virtual void look() = 0;
};

/// Over the pipes to all ranks, this rank's own being null. The last of these links to go sends what is kept, for up to
/// two seconds, and lets go of what lies `beneath` the pipes then, and of the news that they share. A link whose
/// peer's host has vanished, by `timeout`, has ended.
JobLinks links_over(std::vector<std::unique_ptr<Pipe>> pipes, std::vector<PeerInfo> who, const HostTimeout& timeout,
                    NewsDescriptors news, std::shared_ptr<void> beneath = nullptr,
                    std::shared_ptr<SharedNews> shared = nullptr);

}  // namespace ronde::transport
