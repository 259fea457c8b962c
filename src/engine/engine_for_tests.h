// The engine of the first rank of a job, without the others. Where it is alone its requests end as soon as somebody
// steps.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/native/native.h"
#include "engine/engine.h"
#include "transport/loopback/loopback.h"

namespace ronde::engine {

inline std::unique_ptr<Engine> engine_of_first_rank(const Clock& clock, int ranks = 1) {
  auto arenas = transport::make_loopback_world(ranks, transport::RegionLayout::for_size(ranks));
  auto backend = backend::make_native_backend(*arenas.front());
  Topology topology;
  topology.size = topology.local_size = ranks;
  return std::make_unique<Engine>(topology, Connections::on_host(std::move(arenas.front()), std::move(backend)),
                                  Settings(), clock);
}

inline TicketPtr small_reduction(const std::string& name, std::vector<float>& values, DoneCallback on_done = {}) {
  Request request;
  request.name = name;
  Tensor tensor;
  tensor.data = values.data();
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  request.tensors.push_back({tensor, tensor});
  return std::make_shared<Ticket>(std::move(request), std::move(on_done));
}

}  // namespace ronde::engine
