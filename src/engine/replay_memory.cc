// What replay says of memory in the heap when requests end in an error (engine_memory.cc).
#include <mutex>

#include "engine/replay.h"

namespace ronde::engine {

bool Replay::is_withdrawn(const HeapPlace& place, const Descriptor& descriptor) const {
  const std::uint64_t bytes = payload_bytes(descriptor);
  return place.is_known() && (arena_.is_withdrawn(static_cast<std::size_t>(place.input), bytes) ||
                              arena_.is_withdrawn(static_cast<std::size_t>(place.output), bytes));
}

std::vector<HeapSpan> Replay::exposed() const {
  std::lock_guard<Gate> gate(gate_);
  std::vector<HeapSpan> all;
  for (const std::unique_ptr<Run>& run : runs_) {
    if (run && run->in_force) {
      for (HeapSpan& span : run->data->exposed()) {
        all.push_back(std::move(span));
      }
    }
  }
  return all;
}

void Replay::leave_withdrawn_places() {
  std::lock_guard<Gate> gate(gate_);
  if (member_.mode() != agreement::Mode::replay) {
    return;
  }
  for (std::uint32_t id : member_.in_force()) {
    for (const BucketMember& member : member_.bucket(id).members) {
      if (!member.places.empty() &&
          is_withdrawn(member.places[static_cast<std::size_t>(arena_.rank())], member.descriptor)) {
        member_.step(agreement::LocalReason{agreement::Reason::descriptor, id}, *this);
        return;
      }
    }
  }
}

}  // namespace ronde::engine
