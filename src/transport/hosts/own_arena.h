// OwnArena: what an engine gets of a host's arena whose other ranks it reaches by messages: this rank's own region, as
// an arena of one. Its bell is the one that the others ring when they have written to a ring.
#pragma once

#include <memory>

#include "transport/arena/arena.h"

namespace ronde::transport {

class OwnArena final : public HostArena {
 public:
  explicit OwnArena(std::shared_ptr<HostArena> host);

  Status need_slots(std::size_t bytes) override { return host_->need_slots(bytes); }

 private:
  static Parts parts_of(HostArena& host);

  const std::shared_ptr<HostArena> host_;
};

}  // namespace ronde::transport
