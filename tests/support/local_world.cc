#include "support/local_world.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <utility>

#include "backend/shm/shm.h"
#include "engine/process/world_connections.h"
#include "engine/testing/ordered_backend.h"
#include "transport/loopback/loopback.h"

namespace ronde::test {

namespace {

std::string_view medium() {
  const char* const text = std::getenv("RONDE_TEST_MEDIUM");
  return text == nullptr ? "" : text;
}

/// Of ranks of several hosts, pairs and a rest of one; nothing where each is on its own.
std::vector<int> first_of_hosts(int size) {
  std::vector<int> first_of;
  for (int rank = 0; rank < size && medium() == "hosts"; ++rank) {
    first_of.push_back(rank / 2 * 2);
  }
  return first_of;
}

std::vector<engine::Connections> connected_by_messages(transport::LoopbackNet& links,
                                                       transport::LoopbackNet& agreement) {
  std::vector<engine::Connections> all;
  for (int rank = 0; rank < links.size(); ++rank) {
    std::vector<transport::PeerInfo> who(static_cast<std::size_t>(links.size()), {"loopback", ::getpid()});
    const std::shared_ptr<transport::Transport> messages(std::shared_ptr<void>(), &links.transport(rank));
    const std::shared_ptr<transport::Transport> agreements(std::shared_ptr<void>(), &agreement.transport(rank));
    all.push_back(engine::connect_by_messages(
                      std::move(transport::make_loopback_world(1, transport::RegionLayout::for_size(1)).front()),
                      std::move(who), rank, {messages, agreements}, [] {}, first_of_hosts(links.size()))
                      .members);
  }
  return all;
}

}  // namespace

std::vector<engine::Connections> LocalWorld::connected_by_memory(int size) {
  std::vector<engine::Connections> all;
  for (auto& arena : transport::make_loopback_world(size, transport::RegionLayout::for_size(size))) {
    published_.push_back(&arena->control(arena->rank()).ticks.published.value);
    std::unique_ptr<backend::Backend> backend = backend::make_shm_backend(*arena);
    all.push_back(engine::connect_on_host(std::move(arena), std::move(backend)).members);
  }
  return all;
}

bool LocalWorld::has_published(int rank) const { return published_[static_cast<std::size_t>(rank)]->load() != 0; }

bool LocalWorld::is_by_messages() { return medium() == "messages" || medium() == "hosts"; }

bool LocalWorld::is_ordered() { return std::getenv("RONDE_TEST_ORDERED") != nullptr; }

LocalWorld::LocalWorld(int size, engine::Settings settings, const Wrap& wrap)
    : dead_(static_cast<std::size_t>(size)),
      untold_(static_cast<std::size_t>(size)),
      paused_(static_cast<std::size_t>(size)) {
  if (is_by_messages()) {
    links_ = std::make_unique<transport::LoopbackNet>(size);
    agreement_ = std::make_unique<transport::LoopbackNet>(size);
  }
  if (is_ordered() && !wrap) {
    order_ = std::make_shared<engine::LaunchOrder>(size);
  }
  auto all = links_ ? connected_by_messages(*links_, *agreement_) : connected_by_memory(size);
  for (int rank = 0; rank < size; ++rank) {
    engine::Topology topology;
    topology.rank = topology.local_rank = rank;
    topology.size = topology.local_size = size;
    engine::Connections& connections = all[static_cast<std::size_t>(rank)];
    if (wrap) {
      connections.backend = wrap(rank, std::move(connections.backend));
    } else if (order_) {
      connections.backend = std::make_unique<engine::OrderedBackend>(std::move(connections.backend), order_, rank);
    }
    engines_.push_back(std::make_unique<engine::Engine>(topology, std::move(connections), settings, clock_));
  }
}

LocalWorld::~LocalWorld() {
  if (order_) {
    EXPECT_EQ(order_->failure(), "");
  }
}

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

/// Of all ranks, over links.
std::uint64_t LocalWorld::all_news() const {
  std::uint64_t sum = 0;
  for (int rank = 0; links_ && rank < size(); ++rank) {
    sum += links_->news(rank) + agreement_->news(rank);
  }
  return sum;
}

bool LocalWorld::step(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (dead_[index] || paused_[index]) {
    return false;
  }
  const std::uint64_t news = all_news();
  const bool moved = engine(rank).step() || all_news() != news;  // what was kept may have found room
  const std::vector<int> ended = std::exchange(untold_[index], {});
  for (const int peer : ended) {
    engine(rank).notice_end(peer);
  }
  return moved || !ended.empty();
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
  if (links_) {
    links_->cut(rank);
    agreement_->cut(rank);
  }
  for (int other = 0; other < size(); ++other) {
    if (other == rank || dead_[static_cast<std::size_t>(other)]) {
      continue;
    }
    if (links_) {
      untold_[static_cast<std::size_t>(other)].push_back(rank);
    } else {
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
