#include "engine/process/first_table.h"

#include <utility>

namespace ronde::engine {

FirstTable first_table(const std::optional<collectives::Table>& given, bool may_probe, int ranks, double cores,
                       const std::function<std::optional<collectives::TableCache>()>& open_cache) {
  if (given) {
    return {*given};
  }
  FirstTable first{collectives::Table::built_in()};
  if (!may_probe || ranks < 2 || cores < ranks) {
    return first;
  }
  ProbeTask task;
  task.ranks = ranks;
  task.cache = open_cache();
  if (const auto cached = task.cache ? task.cache->load() : std::nullopt) {
    first.table = cached->table;
    task.hand_over = cached->hand_over;
  }
  task.row = first.table.of(ranks);
  first.task = std::move(task);
  return first;
}

}  // namespace ronde::engine
