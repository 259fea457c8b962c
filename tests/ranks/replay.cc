// Replay between processes: stopped, late and killed ranks, in the steady state and while it breaks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <ronde/ronde.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/effort.h"
#include "support/rank_test.h"

namespace ronde::test {
namespace {

ronde_counters counters() {
  ronde_counters all{};
  all.struct_size = sizeof all;
  ronde_get_counters(nullptr, &all);
  return all;
}

/// A model's gradients, one of each kind of bucket, all-reduced by name.
class Model {
 public:
  /// `extra`: elements that the middle tensor has more than before; another number is another shape, so replay breaks.
  void step(std::size_t extra) {
    const std::vector<std::pair<std::string, std::size_t>> sizes = {
        {"scalar", 1}, {"bias", 100}, {"conv", 5000 + extra}, {"dense", 20000}, {"head", 70001}};
    const auto p = static_cast<float>(size());
    const auto start = static_cast<float>(step_ % 1000);
    std::vector<Ticket> tickets;
    for (const auto& [name, elements] : sizes) {
      std::vector<float>& values = values_[name];
      values.assign(elements, start + static_cast<float>(test::rank()));
      tickets.push_back(allreduce_async(values, {.name = name, .op = Op::sum}));
    }
    for (const Ticket& ticket : tickets) {
      ticket.wait();
    }
    for (const auto& [name, values] : values_) {
      const float sum = p * start + p * (p - 1) / 2;
      ASSERT_EQ(std::count(values.begin(), values.end(), sum), static_cast<std::ptrdiff_t>(values.size()))
          << name << " in step " << step_;
    }
    ++step_;
  }

 private:
  std::map<std::string, std::vector<float>> values_;
  int step_ = 0;
};

/// Stops a process for a moment again and again, until it goes. Never leaves it stopped.
class Stopper {
 public:
  Stopper(int process, unsigned seed) : thread_([this, process, seed] { run(process, seed); }) {}
  ~Stopper() {
    over_ = true;
    thread_.join();
  }

 private:
  void run(int process, unsigned seed) {
    std::mt19937 random(seed);
    while (!over_) {
      ::kill(process, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      ::kill(process, SIGCONT);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    }
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

int process_of(int rank) {
  int process = 0;
  std::ifstream(folder() + "/process." + std::to_string(rank)) >> process;
  return process;
}

constexpr int kSteps = kFullEffort ? 240 : 80;

/// By another rank each time the test is run with another victim: rank 0 coordinates, the others do not.
void stop_through_breaks(int victim) {
  ronde::init();
  std::ofstream(folder() + "/process." + std::to_string(test::rank())) << ::getpid();
  meet();
  {
    const int stopping = (victim + 1) % size();
    std::unique_ptr<Stopper> stopper;
    if (test::rank() == stopping) {
      stopper = std::make_unique<Stopper>(process_of(victim), static_cast<unsigned>(victim + 1));
    }
    Model model;
    for (int i = 0; i < kSteps; ++i) {
      ASSERT_NO_FATAL_FAILURE(model.step(static_cast<std::size_t>(i / (kSteps / 8) % 2)));
    }
  }
  EXPECT_GE(counters().breaks, 2u);
  EXPECT_GT(counters().replayed, static_cast<std::uint64_t>(kSteps));
  ronde::shutdown();
}

TEST(ReplayOfProcesses, ARankThatIsStoppedAgainAndAgainThroughBreaksCostsNoValue) { stop_through_breaks(size() - 1); }

TEST(ReplayOfProcesses, SoWithTheCoordinator) { stop_through_breaks(0); }

TEST(ReplayOfProcesses, ARankThatComesLateIsWaitedFor) {
  ronde::init();
  Model model;
  for (int i = 0; i < 40; ++i) {
    if (i == 20 && test::rank() == size() - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // longer than replay is patient without agreement
    }
    ASSERT_NO_FATAL_FAILURE(model.step(0));
  }
  EXPECT_GE(counters().breaks, 1u);
  EXPECT_GT(counters().replayed, 40u);
  ronde::shutdown();
}

/// Last in the program: a rank is dead afterwards. Whom and when is another in every run.
TEST(ReplayOfProcesses, ADeathAtAnyMomentEndsEveryCallWithinASecond) {
  ronde::init();
  std::mt19937 random(static_cast<unsigned>(::getppid()));  // the same on all ranks
  const int victim = static_cast<int>(random() % static_cast<unsigned>(size()));
  const auto moment = std::chrono::microseconds(random() % 30000);
  const std::string stamp = folder() + "/killed_at";
  std::printf("rank %d dies %d us after step 20\n", victim, static_cast<int>(moment.count()));
  std::thread killer;
  if (test::rank() == victim) {
    expect_exit(128 + SIGKILL);
  }
  try {
    Model model;
    for (int i = 0;; ++i) {
      ASSERT_NO_FATAL_FAILURE(model.step(static_cast<std::size_t>(i / 7 % 2)));
      if (i == 20 && test::rank() == victim) {
        killer = std::thread([&] {
          std::this_thread::sleep_for(moment);
          std::ofstream(stamp) << std::fixed << now_seconds() << std::flush;
          ::kill(::getpid(), SIGKILL);
        });
      }
    }
  } catch (const Error& error) {
    double killed = 0;
    std::ifstream(stamp) >> killed;
    EXPECT_LT(now_seconds() - killed, 1.0);
    EXPECT_EQ(error.code(), Code::peer_lost) << error.what();
    EXPECT_EQ(error.failed_rank(), victim);
  }
  const double before = now_seconds();
  ronde::shutdown();
  EXPECT_LT(now_seconds() - before, 2.0) << "nobody waits for the dead";
}

}  // namespace
}  // namespace ronde::test
