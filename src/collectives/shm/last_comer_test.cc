#include "collectives/shm/last_comer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "collectives/shm/channel.h"
#include "transport/bell.h"
#include "transport/loopback/loopback.h"

namespace ronde::collectives {
namespace {

using Arenas = std::vector<std::unique_ptr<transport::HostArena>>;

Arenas arenas_of(int size) { return transport::make_loopback_world(size, transport::RegionLayout::for_size(size)); }

void arm_all(Arenas& world) {
  for (auto& arena : world) {
    transport::Sleeper(arena->control(arena->rank()).bell).arm(transport::kEngineSleeps);
  }
}

/// How many ranks sleep still.
int asleep(Arenas& world) {
  int count = 0;
  for (auto& arena : world) {
    count += arena->control(arena->rank()).bell.state.load() == transport::kEngineSleeps ? 1 : 0;
  }
  return count;
}

TEST(LastComer, AloneWakesTheOthers) {
  Arenas world = arenas_of(5);
  std::vector<std::unique_ptr<HostChannel>> channels;
  for (auto& arena : world) {
    channels.push_back(std::make_unique<HostChannel>(*arena));
    channels.back()->begin(2);
  }
  for (const std::uint64_t tick : {1, 2}) {
    arm_all(world);
    for (const std::size_t rank : {3, 0, 4, 2}) {
      channels[rank]->publish_for_all(tick);
      EXPECT_EQ(asleep(world), 5) << "woken before it can go on, as " << rank << " came";
    }
    channels[1]->publish_for_all(tick);
    EXPECT_EQ(asleep(world), 1) << "the last has woken all but itself";
  }
  arm_all(world);
  channels[0]->publish(3);
  EXPECT_EQ(asleep(world), 1) << "where somebody waits for one rank, each wakes";
}

TEST(LastComer, OfThoseWhoComeAtOnceAtLeastOneWakes) {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kTicks = 20000;
  Arenas world = arenas_of(kRanks);
  // A machine that has other work takes a time slice for each switch between these threads.
  const RealClock clock;
  const Nanoseconds until = later(clock.now(), 10 * kSecond);
  std::atomic<bool> goes_on{true};
  std::barrier start(kRanks, [&]() noexcept {
    arm_all(world);
    goes_on = clock.now() < until;
  });
  std::barrier end(kRanks);
  std::atomic<int> lost{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      HostChannel channel(*world[static_cast<std::size_t>(rank)]);
      channel.begin(kTicks);
      for (std::uint64_t tick = 1; tick <= kTicks; ++tick) {
        start.arrive_and_wait();
        if (!goes_on) {
          break;
        }
        channel.publish_for_all(tick);
        end.arrive_and_wait();
        // Two of three may be the last, so one of them may have been woken by the other alone.
        if (rank == 0 && asleep(world) > 1) {
          lost.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(lost.load(), 0);
}

}  // namespace
}  // namespace ronde::collectives
