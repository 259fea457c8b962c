#include "collectives/tuning/probe.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/core_set.h"

namespace ronde::collectives {
namespace {

/// Others may keep the cores busy; then there is no measurement, which is right as well.
template <typename Measure>
auto one_of_several(const Measure& measure) {
  auto measured = measure();
  for (int i = 0; i < 20 && !measured; ++i) {
    measured = measure();
  }
  return measured;
}

TEST(Probe, MeasuresWhatIsPlausible) {
  const std::atomic<std::uint32_t> stop{0};
  const std::vector<int> before = CoreSet::of_this_thread().cores();
  const std::optional<Measurement> measured = one_of_several([&] { return measure(stop); });
  EXPECT_EQ(CoreSet::of_this_thread().cores(), before) << "this thread's cores are its own again";
  if (before.size() < 2) {
    EXPECT_FALSE(measured);
    return;
  }
  if (measured) {
    EXPECT_GT(measured->hand_over, 1);
    EXPECT_LT(measured->hand_over, 1e6);
    EXPECT_GT(measured->fetch, 0);
    EXPECT_GT(measured->copy, 0);
  }
  const auto hand_over = one_of_several([&] { return measure_hand_over(stop); });
  EXPECT_GT(hand_over.value_or(10), 1);
}

TEST(Probe, IsOverSoonAfterItWasStopped) {
  std::atomic<std::uint32_t> stop{1};
  EXPECT_FALSE(measure(stop));
  EXPECT_FALSE(measure_hand_over(stop));
  stop = 0;
  std::thread stopper([&] { stop = 1; });
  while (stop == 0) {
    measure(stop);
  }
  stopper.join();
}

TEST(Probe, OnOneCoreThereIsNothingToMeasure) {
  const std::vector<int> cores = CoreSet::of_this_thread().cores();
  std::thread([&] {
    ASSERT_TRUE(CoreSet::only(cores.at(0)).apply());
    EXPECT_FALSE(measure(std::atomic<std::uint32_t>{0}));
    EXPECT_EQ(CoreSet::of_this_thread().cores(), std::vector{cores[0]});
  }).join();
}

}  // namespace
}  // namespace ronde::collectives
