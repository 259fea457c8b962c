#include "transport/hosts/own_arena.h"

#include <utility>

namespace ronde::transport {

OwnArena::OwnArena(std::shared_ptr<HostArena> host) : host_(std::move(host)), layout_(host_->layout()) {
  layout_.size = 1;
  if (layout_.heap_offset() != host_->layout().heap_offset()) {
    layout_.heap_bytes = 0;  // it would be looked for in the wrong place
  }
}

}  // namespace ronde::transport
