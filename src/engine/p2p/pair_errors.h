// What sends and recvs say when they end otherwise than well: to their callers, and to the other side.
#pragma once

#include <cstdint>
#include <string>

#include "control/messages.h"
#include "engine/requests/ticket.h"

namespace ronde::engine {

/// The time of this send or recv is up.
Status pair_is_late(const Request& request);
/// The program of `own`, this rank, has cancelled it.
Status pair_is_cancelled(const Ticket& ticket, int own);
/// Of an offer that does not fit the recv that it has met: for both sides. Ranks are the job's.
std::string pair_does_not_fit(const control::OfferMessage& offer, int from, const Request& recv, int own);
/// What the other side is told of a send or recv of `own`, this rank, that ends for this reason.
control::GiveUpMessage farewell(std::uint64_t id, bool by_sender, const Ticket& ticket, const Status& reason, int own);
/// What the sender is told of an offer that `own`, this rank, will never take for this reason.
control::GiveUpMessage refusal(std::uint64_t id, const Status& reason, int own);

}  // namespace ronde::engine
