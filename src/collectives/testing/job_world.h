// For tests: a world of ranks that run jobs, stepped by hand from one thread or with a thread per rank, whatever their
// bytes travel through.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "collectives/testing/jobs.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

class JobWorld {
 public:
  virtual ~JobWorld() = default;
  virtual std::size_t size() const = 0;
  virtual std::unique_ptr<Operation> begin(std::size_t rank, const Plan& plan) = 0;
  /// In the rank's thread: advances the operation to its end, and sleeps while it can do nothing. False if nobody woke
  /// it in time.
  virtual bool finish(std::size_t rank, Operation& operation) = 0;
  /// One thread plays all ranks and wonders why none moves: true if something was held up that moves now.
  virtual bool move_on(std::mt19937_64&) { return false; }

  /// Runs the jobs on all ranks, in a random interleaving of single steps; each rank begins a job as soon as it is
  /// done with the one before. Empty if all went well, else what did not.
  std::string run_by_hand(const std::vector<Job>& jobs, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::size_t> next(size(), 0);
    std::vector<std::unique_ptr<Operation>> operations(size());
    // An operation that is idle may have made room for others in a link, or taken what comes later out of it.
    const std::size_t patience = 100 * size();
    std::size_t idle_in_a_row = 0;
    // Now and then a rank is favoured for a while, so that some run far ahead.
    std::size_t favourite = 0;
    while (true) {
      if (random() % 50 == 0) {
        favourite = random() % size();
      }
      const std::size_t rank = random() % 2 == 0 ? favourite : random() % size();
      if (next[rank] < jobs.size()) {
        if (operations[rank] == nullptr) {
          operations[rank] = begin(rank, jobs[next[rank]].plans[rank]);
        }
        const Progress progress = operations[rank]->advance();
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
        if (progress != Progress::idle) {
          idle_in_a_row = 0;
          continue;
        }
      }
      if (++idle_in_a_row < patience) {
        continue;
      }
      if (std::all_of(next.begin(), next.end(), [&](std::size_t each) { return each == jobs.size(); })) {
        return {};
      }
      if (!move_on(random)) {
        return "all ranks wait";
      }
      idle_in_a_row = 0;
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
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const auto operation = begin(rank, jobs[job].plans[rank]);
      if (!finish(rank, *operation)) {
        return "rank " + std::to_string(rank) + " was not woken in job " + std::to_string(job);
      }
      if (std::string wrong = jobs[job].wrong(rank); !wrong.empty()) {
        return "job " + std::to_string(job) + ": " + wrong;
      }
    }
    return {};
  }
};

}  // namespace ronde::collectives
