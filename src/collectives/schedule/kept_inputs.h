// Whether what an exchange sends stays as it is until the exchange is done.
#pragma once

#include <vector>

#include "collectives/gather_list.h"
#include "collectives/schedule/exchange_schedule.h"

namespace ronde::collectives {

/// Whether nothing that this rank writes lies in memory that it reads: not so where a tensor is exchanged in place.
/// False also of little, which is copied sooner than it is found out. `lists`: of the exchange.
bool keeps_inputs(const Exchange& exchange, const std::vector<GatherList>& lists);

}  // namespace ronde::collectives
