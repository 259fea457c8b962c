// The sentences of a failed meeting, the same from every store.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ronde::store {

/// TIMED_OUT: which ranks of the scope have come and which have not within the limit.
Status missing_ranks(const std::string& scope, const std::vector<bool>& come, Nanoseconds limit);
/// INVALID_ARGUMENT: another process has claimed this rank, or the rank is outside the size that others announced.
Status claim_refused(const std::string& scope, int rank, int size);
/// `missing`, of a rank that came to where all ranks had met before: another process has been that rank.
Status met_without(const Status& missing, int rank);

}  // namespace ronde::store
