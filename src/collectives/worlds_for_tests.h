// For tests that hold whatever the bytes travel through: worlds of every medium.
#pragma once

#include <memory>
#include <string>
#include <tuple>

#include "collectives/host/world_for_tests.h"
#include "collectives/schedule/message_world_for_tests.h"
#include "collectives/slices.h"

namespace ronde::collectives {

enum class Medium { shared_memory, messages };

/// For messages: links with room for as many messages as there are slots, less one; messages of half a slot; one turn
/// instead of one shot.
inline std::unique_ptr<JobWorld> make_world(Medium medium, const transport::RegionLayout& layout,
                                            const Thresholds& thresholds = kTinyThresholds) {
  if (medium == Medium::shared_memory) {
    return std::make_unique<World>(layout, thresholds);
  }
  const messages::MessageLimits limits = {
      .one_turn = thresholds.one_shot,
      .chunk = round_up_to_line(std::min<std::size_t>(thresholds.chunk, layout.slot_bytes) / 2)};
  return std::make_unique<MessageWorld>(layout.size, static_cast<std::size_t>(layout.slots - 1), limits);
}

/// Of a test whose parameters are a medium and a number of ranks.
struct MediumAndSize {
  Medium medium;
  int size;
};

inline std::vector<MediumAndSize> every_medium(std::initializer_list<int> sizes) {
  std::vector<MediumAndSize> all;
  for (const Medium medium : {Medium::shared_memory, Medium::messages}) {
    for (const int size : sizes) {
      all.push_back({medium, size});
    }
  }
  return all;
}

/// "messages_3"
inline std::string name_of(const MediumAndSize& each) {
  return (each.medium == Medium::messages ? "messages_" : "shared_memory_") + std::to_string(each.size);
}
inline void PrintTo(const MediumAndSize& each, std::ostream* stream) { *stream << name_of(each); }

}  // namespace ronde::collectives
