// The engine of the first rank of a job, without the others. Where it is alone its requests end as soon as somebody
// steps.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/engine.h"
#include "engine/testing/world.h"

namespace ronde::engine {

inline std::unique_ptr<Engine> engine_of_first_rank(const Clock& clock, int ranks = 1) {
  Topology topology;
  topology.size = topology.local_size = ranks;
  return std::make_unique<Engine>(topology, std::move(loopback_connections(ranks).front()), Settings(), clock);
}

/// In place; `values` must outlive the ticket.
inline TicketPtr sum(const std::string& name, std::vector<float>& values, DoneCallback on_done = {},
                     std::int32_t group = 0) {
  Request request;
  request.name = name;
  request.group = group;
  Tensor tensor;
  tensor.data = values.data();
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  request.tensors.push_back({tensor, tensor});
  return std::make_shared<Ticket>(std::move(request), std::move(on_done));
}

}  // namespace ronde::engine
