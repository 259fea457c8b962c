// How ranks that have connected, or could not, come to one result.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "store/store.h"

namespace ronde::transport {

/// What the sentence of a rank begins with that waited for others in vain: it is believed only if no other has failed.
inline constexpr const char* kStartTimedOut = "Timed out";

/// Collective: a rank that has failed says so in the store, so that nobody waits for it. Ok on every rank if all say
/// ok; else SYSTEM_ERROR with the number and the sentence of the rank that is the cause. Blocks up to `limit`.
Status agree_on_start(store::Store& store, const std::string& scope, int rank, int size, const Status& mine,
                      Nanoseconds limit);

}  // namespace ronde::transport
