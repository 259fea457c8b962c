// FirstTable: by which table of thresholds a job begins to reduce, as its host's first rank decides, and whether it is
// measured meanwhile (progress/prober.h).
#pragma once

#include <functional>
#include <optional>

#include "collectives/tuning/table.h"
#include "collectives/tuning/table_cache.h"
#include "engine/progress/prober.h"

namespace ronde::engine {

struct FirstTable {
  collectives::Table table;
  std::optional<ProbeTask> task = {};  ///< if it shall be probed
};

/// `given` by the user, then nothing is probed; else the cached table if there is one, else the built-in. Nothing is
/// probed for one rank, nor where ranks share cores: there waits are the scheduler's turns, and the built-in row holds.
FirstTable first_table(const std::optional<collectives::Table>& given, bool may_probe, int ranks, double cores,
                       const std::function<std::optional<collectives::TableCache>()>& open_cache);

}  // namespace ronde::engine
