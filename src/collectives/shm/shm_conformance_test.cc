// The collectives over the memory of processes. Here the ranks are threads that met through shm, each with mappings of
// its own, in which only its own region is writable: a store into a peer's slot would be a crash.
#include <gtest/gtest.h>

#include "collectives/shm/testing/world.h"
#include "store/memory_store.h"
#include "transport/shm/shm.h"

namespace ronde::collectives {
namespace {

std::vector<std::unique_ptr<transport::HostArena>> meet(const transport::RegionLayout& layout) {
  store::MemoryStore store;
  std::vector<std::unique_ptr<transport::HostArena>> arenas(static_cast<std::size_t>(layout.size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < layout.size; ++rank) {
    threads.emplace_back([&, rank] {
      auto arena = transport::meet_on_host(store, "host", rank, layout.size, layout, 20 * kSecond);
      if (arena) {
        arenas[static_cast<std::size_t>(rank)] = std::move(arena).value();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return arenas;
}

class ShmConformance : public testing::TestWithParam<int> {};

// One thread plays all ranks: ThreadSanitizer takes two mappings of the same memory for different memory, so with a
// thread per rank it sees none of the flags that order their accesses. Threads are for the loopback (conformance_test).
TEST_P(ShmConformance, MixedPlansByHand) {
  const transport::RegionLayout layout = tiny_slots(GetParam());
  auto arenas = meet(layout);
  for (const auto& arena : arenas) {
    ASSERT_NE(arena, nullptr);
  }
  World world(std::move(arenas));
  std::mt19937_64 random(7);
  std::vector<Job> jobs;
  for (int i = 0; i < 200; ++i) {
    jobs.push_back(make_job(random_spec(GetParam(), 6000, random)));
  }
  EXPECT_EQ(world.run_by_hand(jobs, 1), "");
}

INSTANTIATE_TEST_SUITE_P(Worlds, ShmConformance, testing::Values(1, 2, 3, 5, 8));

}  // namespace
}  // namespace ronde::collectives
