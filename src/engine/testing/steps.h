// Worlds moved by hand whose ranks reduce the same named vectors step by step, each in an order of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/local_world.h"

namespace ronde::engine {

/// A world whose ranks reduce the same named vectors step by step.
class Steps {
 public:
  explicit Steps(int size, Settings settings = {}, const test::LocalWorld::Wrap& wrap = {})
      : world(size, settings, wrap) {}

  /// The values of `name` on a rank, rank + 1 + step everywhere before a step.
  std::vector<float>& values(int rank, const std::string& name, std::size_t elements) {
    std::vector<float>& all = values_[{rank, name}];
    all.assign(elements, static_cast<float>(rank + 1 + step_));
    return all;
  }
  TicketPtr submit(int rank, const std::string& name, std::size_t elements) {
    const TicketPtr ticket = world.submit(rank, test::allreduce(name, values(rank, name, elements)));
    tickets_.push_back({rank, ticket});
    return ticket;
  }
  /// Every rank submits all names, in an order of its own; then all must be right.
  void step(const std::vector<std::pair<std::string, std::size_t>>& names) {
    for (int rank = 0; rank < world.size(); ++rank) {
      auto order = names;
      std::shuffle(order.begin(), order.end(), random_);
      for (const auto& [name, elements] : order) {
        submit(rank, name, elements);
        if (random_() % 3 == 0) {
          world.step(rank);
        }
      }
    }
    finish();
  }
  /// Waits for all, as a program does: with time passing if something is held up.
  void finish() {
    world.settle(random_);
    for (int i = 0; i < 20 && !all_done(); ++i) {
      for (const auto& [rank, ticket] : tickets_) {
        world.engine(rank).want(*ticket);
      }
      world.clock().advance(2 * kMillisecond);
      world.settle(random_);
    }
    const auto ranks = static_cast<float>(world.size());
    const float sum = ranks * (ranks + 1) / 2 + ranks * static_cast<float>(step_);
    for (const auto& [rank, ticket] : tickets_) {
      ASSERT_TRUE(ticket->is_done()) << ticket->name() << " of rank " << rank << " in step " << step_;
      ASSERT_TRUE(ticket->status()) << ticket->status().message();
      const std::vector<float>& values = values_[{rank, ticket->name()}];
      ASSERT_EQ(std::count(values.begin(), values.end(), sum), static_cast<std::ptrdiff_t>(values.size()))
          << ticket->name() << " of rank " << rank << " in step " << step_;
      world.wait(rank, *ticket);
    }
    tickets_.clear();
    ++step_;
  }
  bool all_done() const {
    return std::all_of(tickets_.begin(), tickets_.end(), [](const auto& each) { return each.second->is_done(); });
  }
  std::uint64_t messages() {
    std::uint64_t all = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      all += world.engine(rank).counters().control_messages;
    }
    return all;
  }
  std::uint64_t entries() {
    std::uint64_t all = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      all += world.engine(rank).replay_counters().entries;
    }
    return all;
  }
  const ReplayCounters& counters(int rank) { return world.engine(rank).replay_counters(); }

  test::LocalWorld world;

 private:
  std::map<std::pair<int, std::string>, std::vector<float>> values_;
  std::vector<std::pair<int, TicketPtr>> tickets_;
  std::mt19937 random_{7};
  int step_ = 0;
};

/// Sizes of every kind of bucket: inline, one shot, fused, staged, ordered.
inline const std::vector<std::pair<std::string, std::size_t>> kModel = {
    {"scalar", 1}, {"bias", 100}, {"norm", 64}, {"conv", 3000}, {"dense", 20000}, {"head", 70001}, {"nothing", 0}};

}  // namespace ronde::engine
