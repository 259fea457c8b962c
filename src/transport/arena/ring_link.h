// Links over byte rings in the arena: one ring for each ordered pair of ranks.
#pragma once

#include <memory>

#include "transport/arena/arena.h"
#include "transport/transport.h"

namespace ronde::transport {

/// Links from this rank to every other of the host. The arena must outlive the transport. One transport in
/// the life of an arena, used under one lock.
std::unique_ptr<Transport> make_ring_transport(HostArena& arena);

}  // namespace ronde::transport
