// For tests: a world of ranks that run jobs, stepped by hand from one thread or with a thread per rank.
#pragma once

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/host/channel.h"
#include "collectives/jobs_for_tests.h"
#include "collectives/host/select.h"
#include "transport/bell.h"
#include "transport/loopback/loopback.h"

namespace ronde::collectives {

/// With tiny slots few elements meet every regime: one tick and several in one shot, two phases, streaming.
inline constexpr Thresholds kTinyThresholds = {.one_shot = 1024, .chunk = 512, .stream = 8192};

class World {
 public:
  explicit World(std::vector<std::unique_ptr<transport::HostArena>> arenas,
                 const Thresholds& thresholds = kTinyThresholds)
      : arenas_(std::move(arenas)) {
    for (const auto& arena : arenas_) {
      channels_.push_back(std::make_unique<HostChannel>(*arena, thresholds));
    }
  }
  explicit World(const transport::RegionLayout& layout, const Thresholds& thresholds = kTinyThresholds)
      : World(transport::make_loopback_world(layout.size, layout), thresholds) {}

  std::size_t size() const { return arenas_.size(); }
  HostChannel& channel(std::size_t rank) { return *channels_[rank]; }

  /// Runs the jobs on all ranks, in a random interleaving of single steps; each rank begins a job as soon as it is
  /// done with the one before. Empty if all went well, else what did not.
  std::string run_by_hand(const std::vector<Job>& jobs, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::size_t> next(size(), 0);
    std::vector<std::unique_ptr<Operation>> operations(size());
    std::vector<bool> stuck(size(), false);
    // Now and then a rank is favoured for a while, so that some run far ahead.
    std::size_t favourite = 0;
    while (true) {
      if (random() % 50 == 0) {
        favourite = random() % size();
      }
      const std::size_t rank = random() % 2 == 0 ? favourite : random() % size();
      if (next[rank] < jobs.size()) {
        if (operations[rank] == nullptr) {
          operations[rank] = start(channel(rank), jobs[next[rank]].plans[rank]);
        }
        const Progress progress = operations[rank]->advance();
        stuck[rank] = progress == Progress::idle;
        if (progress != Progress::idle) {
          std::fill(stuck.begin(), stuck.end(), false);
        }
        if (progress == Progress::done) {
          if (!operations[rank]->waiting_for().empty()) {
            return "an operation that is done waits for somebody";
          }
          operations[rank].reset();
          if (std::string wrong = jobs[next[rank]].wrong(rank); !wrong.empty()) {
            return "job " + std::to_string(next[rank]) + ": " + wrong;
          }
          ++next[rank];
        }
        continue;
      }
      stuck[rank] = true;
      bool all_over = true;
      bool all_stuck = true;
      for (std::size_t each = 0; each < size(); ++each) {
        all_over = all_over && next[each] == jobs.size();
        all_stuck = all_stuck && stuck[each];
      }
      if (all_over) {
        return {};
      }
      if (all_stuck) {
        return "all ranks wait";
      }
    }
  }

  /// The same with a thread per rank, which sleeps on its bell whenever it can do nothing.
  std::string run_threads(const std::vector<Job>& jobs) {
    std::vector<std::string> wrong(size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] { wrong[rank] = run_rank(jobs, rank); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const std::string& each : wrong) {
      if (!each.empty()) {
        return each;
      }
    }
    return {};
  }

 private:
  std::string run_rank(const std::vector<Job>& jobs, std::size_t rank) {
    transport::Sleeper sleeper(arenas_[rank]->control(static_cast<int>(rank)).bell);
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const auto operation = start(channel(rank), jobs[job].plans[rank]);
      Progress progress = operation->advance();
      while (progress != Progress::done) {
        if (progress == Progress::idle) {
          sleeper.arm(transport::kWaiterSleeps);
          progress = operation->advance();
          if (progress == Progress::idle && sleeper.sleep_in_futex(30 * kSecond) == transport::Wake::timeout) {
            return "rank " + std::to_string(rank) + " was not woken in job " + std::to_string(job);
          }
          sleeper.disarm();
          if (progress != Progress::idle) {
            continue;
          }
        }
        progress = operation->advance();
      }
      if (std::string wrong = jobs[job].wrong(rank); !wrong.empty()) {
        return "job " + std::to_string(job) + ": " + wrong;
      }
    }
    return {};
  }

  std::vector<std::unique_ptr<transport::HostArena>> arenas_;
  std::vector<std::unique_ptr<HostChannel>> channels_;
};

/// Slots so small that a few kilobytes go many times around them.
inline transport::RegionLayout tiny_slots(int size, int slots = 4) {
  transport::RegionLayout layout = transport::RegionLayout::for_size(size);
  layout.slot_bytes = 512;
  layout.slots = slots;
  layout.heap_bytes = transport::kLoopbackHeapBytes;  // ThreadSanitizer has little address space
  return layout;
}

}  // namespace ronde::collectives
