// For tests: ranks of one host, over the loopback arena or any other.
#pragma once

#include <memory>
#include <vector>

#include "collectives/shm/channel.h"
#include "collectives/shm/select.h"
#include "collectives/testing/job_world.h"
#include "transport/bell.h"
#include "transport/loopback/loopback.h"

namespace ronde::collectives {

/// With tiny slots few elements meet every regime: one tick and several in one shot, two phases, streaming.
inline constexpr Thresholds kTinyThresholds = {.one_shot = 1024, .chunk = 512, .stream = 8192};

class World final : public JobWorld {
 public:
  explicit World(std::vector<std::unique_ptr<transport::HostArena>> arenas,
                 const Thresholds& thresholds = kTinyThresholds)
      : arenas_(std::move(arenas)), thresholds_(thresholds) {
    for (const auto& arena : arenas_) {
      channels_.push_back(std::make_unique<HostChannel>(*arena));
    }
  }
  explicit World(const transport::RegionLayout& layout, const Thresholds& thresholds = kTinyThresholds)
      : World(transport::make_loopback_world(layout.size, layout), thresholds) {}

  HostChannel& channel(std::size_t rank) { return *channels_[rank]; }

  std::size_t size() const override { return arenas_.size(); }
  std::unique_ptr<Operation> begin(std::size_t rank, const Plan& plan) override {
    return start(channel(rank), plan, thresholds_);
  }
  bool finish(std::size_t rank, Operation& operation) override {
    transport::Sleeper sleeper(arenas_[rank]->control(static_cast<int>(rank)).bell);
    Progress progress = operation.advance();
    while (progress != Progress::done) {
      if (progress == Progress::idle) {
        sleeper.arm(transport::kWaiterSleeps);
        progress = operation.advance();
        if (progress == Progress::idle && sleeper.sleep(30 * kSecond) == transport::Wake::timeout) {
          return false;
        }
        sleeper.disarm();
        if (progress != Progress::idle) {
          continue;
        }
      }
      progress = operation.advance();
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<transport::HostArena>> arenas_;
  const Thresholds thresholds_;
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
