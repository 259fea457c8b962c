// Joined ticket: what a rank that has joined does for a request of the others. They have agreed without it, but the
// algorithms need every rank: it takes part with values that change no result, and drops what comes out.
#pragma once

#include <string>

#include "engine/requests/ticket.h"
#include "types/request.h"

namespace ronde::engine {

/// A ticket for a request like the others' `descriptor`, with memory of its own: of an all-reduce the neutral value of
/// the reduction everywhere. Requires: an all-reduce or a barrier, agreement refuses the rest. Throws std::bad_alloc.
TicketPtr make_joined_ticket(const std::string& name, const Descriptor& descriptor, std::int32_t group);

}  // namespace ronde::engine
