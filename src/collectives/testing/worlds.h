// For tests that hold whatever the bytes travel through: worlds of every medium.
#pragma once

#include <memory>
#include <string>
#include <tuple>

#include "collectives/schedule/testing/message_world.h"
#include "collectives/shm/testing/world.h"
#include "collectives/slices.h"

namespace ronde::collectives {

enum class Medium { shared_memory, messages, hosts };

/// Of worlds of Medium::hosts: by rank, the lowest rank of its host.
inline std::vector<int> first_of_hosts(int size) {
  switch (size) {
    case 3: return {0, 0, 2};
    case 4: return {0, 1, 1, 0};
    case 5: return {0, 1, 0, 1, 1};
    case 6: return {0, 0, 0, 0, 4, 4};
    case 7: return {0, 0, 0, 3, 3, 3, 3};
    default: return {0, 0, 2, 2, 4, 4, 6, 6};
  }
}

/// For messages: links with room for as many messages as there are slots, less one; messages of half a slot; one turn
/// instead of one shot.
inline std::unique_ptr<JobWorld> make_world(Medium medium, const transport::RegionLayout& layout,
                                            const Thresholds& thresholds = kTinyThresholds) {
  if (medium == Medium::shared_memory) {
    return std::make_unique<World>(layout, thresholds);
  }
  const messages::MessageLimits limits = {
      .one_turn = thresholds.one_shot,
      .chunk = round_up_to_line(std::min<std::size_t>(thresholds.chunk, layout.slot_bytes) / 2),
      .rank_order_to = 0};
  const auto room = static_cast<std::size_t>(layout.slots - 1);
  if (medium == Medium::hosts) {
    return std::make_unique<MessageWorld>(RankLayout(first_of_hosts(layout.size)), room, limits);
  }
  return std::make_unique<MessageWorld>(layout.size, room, limits);
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

/// Besides with ranks of several hosts, for these sizes: 3 to 8.
inline std::vector<MediumAndSize> with_hosts(std::vector<MediumAndSize> all, std::initializer_list<int> sizes) {
  for (const int size : sizes) {
    all.push_back({Medium::hosts, size});
  }
  return all;
}

/// "messages_3"
inline std::string name_of(const MediumAndSize& each) {
  const char* const medium = each.medium == Medium::messages ? "messages_"
                             : each.medium == Medium::hosts  ? "hosts_"
                                                             : "shared_memory_";
  return medium + std::to_string(each.size);
}
inline void PrintTo(const MediumAndSize& each, std::ostream* stream) { *stream << name_of(each); }

}  // namespace ronde::collectives
