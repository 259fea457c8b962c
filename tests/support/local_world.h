// LocalWorld: n engines in one process over the memory of a loopback host, or over loopback links if RONDE_TEST_MEDIUM
// is "messages" or, with ranks that are two to a host, "hosts" (ctest runs the engine's tests all ways), a fake clock,
// no threads. With RONDE_TEST_ORDERED=1 the backends need one order of all that the ranks launch, and a world fails its
// test if they did otherwise. The test moves them by hand, in any interleaving, and sees every state.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/core/engine.h"
#include "support/log_guard.h"
#include "transport/loopback/links.h"

namespace ronde::engine {
class LaunchOrder;
}

namespace ronde::test {

class LocalWorld {
 public:
  /// Puts something between a rank's engine and its backend.
  using Wrap = std::function<std::unique_ptr<backend::Backend>(int rank, std::unique_ptr<backend::Backend>)>;
  explicit LocalWorld(int size, engine::Settings settings = {}, const Wrap& wrap = {});
  ~LocalWorld();

  /// The ranks share no memory.
  static bool is_by_messages();
  /// Their backends need one order.
  static bool is_ordered();

  int size() const { return static_cast<int>(engines_.size()); }
  engine::Engine& engine(int rank) { return *engines_[static_cast<std::size_t>(rank)]; }
  /// What the rank says to the others of its life, and they to it.
  transport::Peers& peers(int rank) { return *engine(rank).connections().peers; }
  /// The rank has begun a plan, and the others see its part of it. Requires: they share memory.
  bool has_published(int rank) const;
  FakeClock& clock() { return clock_; }
  LogGuard& log() { return log_; }

  /// Submits on one rank; the test fails if it is refused.
  engine::TicketPtr submit(int rank, Request request);
  /// Submits, and gives the error back.
  Status try_submit(int rank, Request request, engine::TicketPtr* ticket = nullptr);

  /// One step of one rank; true if anything moved. A killed or paused rank does not move.
  bool step(int rank);
  /// Steps all ranks in turn until nothing moves any more.
  void settle();
  /// Steps ranks in random order until nothing moves any more.
  void settle(std::mt19937& random);

  /// The rank's process ends without a word, and every other rank is told.
  void kill(int rank);
  /// A rank that is stopped, not dead: it does not move until resume().
  void pause(int rank) { paused_[static_cast<std::size_t>(rank)] = true; }
  void resume(int rank) { paused_[static_cast<std::size_t>(rank)] = false; }
  /// What a waiter does at the end of its wait: the name is free again.
  void wait(int rank, engine::Ticket& ticket);

 private:
  std::vector<engine::Connections> connected_by_memory(int size);
  std::uint64_t all_news() const;

  LogGuard log_;
  FakeClock clock_;
  std::unique_ptr<transport::LoopbackNet> links_;  ///< null where memory is shared
  std::unique_ptr<transport::LoopbackNet> agreement_;
  std::shared_ptr<engine::LaunchOrder> order_;                ///< where it counts
  std::vector<const std::atomic<std::uint64_t>*> published_;  ///< by rank: how much, where memory is shared
  std::vector<std::unique_ptr<engine::Engine>> engines_;
  std::vector<bool> dead_;
  std::vector<std::vector<int>> untold_;  ///< by rank: whose end its links tell it after what came before it
  std::vector<bool> paused_;
};

// ---- Values and requests in one line

using Vectors = std::vector<std::vector<float>>;
/// One vector a rank: rank + 1 everywhere.
Vectors inputs(int size, std::size_t elements);
Request with_timeout(Request request, Nanoseconds timeout);

/// All-reduce in place of `values`, which must outlive the ticket.
Request allreduce(const std::string& name, std::vector<float>& values, ReduceOp op = ReduceOp::sum);
Request broadcast(const std::string& name, std::vector<float>& values, int root);
Request allgather(const std::string& name, std::vector<float>& values);
Request barrier(const std::string& name);

}  // namespace ronde::test
