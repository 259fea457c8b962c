// Job: ranks as threads over one loopback host, each with its runner and engine thread, on the real clock.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/process/runner.h"
#include "engine/testing/engine.h"
#include "engine/testing/world.h"
#include "support/log_guard.h"

namespace ronde::engine {

class Job {
 public:
  /// Puts something between a rank's engine and its backend.
  using Wrap = std::function<std::unique_ptr<backend::Backend>(int rank, std::unique_ptr<backend::Backend>)>;
  explicit Job(int size, Settings settings = {}, const Wrap& wrap = {}) {
    for (JobConnections& job : loopback_jobs(size)) {
      Connections& connections = job.members;
      Topology topology;
      topology.rank = topology.local_rank = connections.peers->self();
      topology.size = topology.local_size = size;
      if (wrap) {
        connections.backend = wrap(topology.rank, std::move(connections.backend));
      }
      auto engine = std::make_unique<Engine>(topology, std::move(connections), settings, clock_);
      Result<std::unique_ptr<Runner>> runner = Runner::start(std::move(engine), std::move(job.groups), clock_);
      EXPECT_TRUE(runner) << runner.status().message();
      runners_.push_back(std::move(*runner));
    }
  }
  ~Job() { shutdown(); }
  /// The test has shut down every rank itself.
  void is_over() { shut_down_ = true; }

  Runner& operator[](int rank) { return *runners_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(runners_.size()); }
  const Clock& clock() const { return clock_; }

  /// `body(rank)` on one thread per rank.
  void run(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back(body, rank);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  void shutdown() {
    if (!shut_down_) {
      shut_down_ = true;
      run([this](int rank) { EXPECT_TRUE((*this)[rank].shutdown()); });
    }
  }

 private:
  test::LogGuard log_;
  RealClock clock_;
  std::vector<std::unique_ptr<Runner>> runners_;
  bool shut_down_ = false;
};

}  // namespace ronde::engine
