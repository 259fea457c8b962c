// The backend of messages: every operation over links, with no memory in common.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "transport/transport.h"

namespace ronde::backend {

/// For the group of `size` ranks of which this is `rank`. `links` must outlive the backend and belong to it alone; null
/// in a world of one. Used under one lock.
std::unique_ptr<Backend> make_message_backend(transport::Transport* links, int rank, int size);

}  // namespace ronde::backend
