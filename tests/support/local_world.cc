#include "support/local_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/native/native.h"
#include "transport/loopback/loopback.h"

namespace ronde::test {

LocalWorld::LocalWorld(int size, engine::Settings settings, const Wrap& wrap)
    : dead_(static_cast<std::size_t>(size)), paused_(static_cast<std::size_t>(size)) {
  auto arenas = transport::make_loopback_world(size, transport::RegionLayout::for_size(size));
  for (int rank = 0; rank < size; ++rank) {
    engine::Topology topology;
    topology.rank = topology.local_rank = rank;
    topology.size = topology.local_size = size;
    auto& arena = arenas[static_cast<std::size_t>(rank)];
    std::unique_ptr<backend::Backend> backend = backend::make_native_backend(*arena);
    if (wrap) {
      backend = wrap(rank, std::move(backend));
    }
    engines_.push_back(
        std::make_unique<engine::Engine>(topology, std::move(arena), std::move(backend), settings, clock_));
  }
}

LocalWorld::~LocalWorld() = default;

engine::TicketPtr LocalWorld::submit(int rank, Request request) {
  engine::TicketPtr ticket;
  const Status status = try_submit(rank, std::move(request), &ticket);
  EXPECT_TRUE(status) << "rank " << rank << ": " << status.message();
  return ticket;
}

Status LocalWorld::try_submit(int rank, Request request, engine::TicketPtr* ticket) {
  auto made = std::make_shared<engine::Ticket>(std::move(request));
  Status status = engine(rank).submit(made);
  if (ticket != nullptr) {
    *ticket = std::move(made);
  }
  return status;
}

bool LocalWorld::step(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return !dead_[index] && !paused_[index] && engine(rank).step();
}

void LocalWorld::settle() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (int rank = 0; rank < size(); ++rank) {
      moved |= step(rank);
    }
  }
}

void LocalWorld::settle(std::mt19937& random) {
  std::vector<int> order(engines_.size());
  std::iota(order.begin(), order.end(), 0);
  bool moved = true;
  while (moved) {
    moved = false;
    // A run of steps of ranks drawn with repetition, then each once, so that "nothing moved" means every rank.
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      moved |= step(std::uniform_int_distribution<int>(0, size() - 1)(random));
    }
    std::shuffle(order.begin(), order.end(), random);
    for (int rank : order) {
      moved |= step(rank);
    }
  }
}

void LocalWorld::kill(int rank) {
  dead_[static_cast<std::size_t>(rank)] = true;
  for (int other = 0; other < size(); ++other) {
    if (other != rank && !dead_[static_cast<std::size_t>(other)]) {
      engine(other).notice_end(rank);
    }
  }
}

void LocalWorld::wait(int rank, engine::Ticket& ticket) {
  EXPECT_TRUE(ticket.is_done());
  engine(rank).free_name(ticket);
}

namespace {

Request request_of(OpKind kind, const std::string& name, std::vector<float>& values) {
  Request request;
  request.kind = kind;
  request.name = name;
  Tensor tensor;
  tensor.data = values.data();
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  request.tensors.push_back({tensor, tensor});
  return request;
}

}  // namespace

Vectors inputs(int size, std::size_t elements) {
  Vectors all;
  for (int rank = 0; rank < size; ++rank) {
    all.emplace_back(elements, static_cast<float>(rank + 1));
  }
  return all;
}

Request with_timeout(Request request, Nanoseconds timeout) {
  request.timeout = timeout;
  return request;
}

Request allreduce(const std::string& name, std::vector<float>& values, ReduceOp op) {
  Request request = request_of(OpKind::allreduce, name, values);
  request.reduce_op = op;
  return request;
}

Request broadcast(const std::string& name, std::vector<float>& values, int root) {
  Request request = request_of(OpKind::broadcast, name, values);
  request.root = root;
  return request;
}

Request allgather(const std::string& name, std::vector<float>& values) {
  return request_of(OpKind::allgather, name, values);
}

Request barrier(const std::string& name) {
  Request request;
  request.kind = OpKind::barrier;
  request.name = name;
  return request;
}

}  // namespace ronde::test
