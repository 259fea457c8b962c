// Where tensors lie that peers reach, and what becomes of that when requests end in an error (engine_memory.cc).
#include <mutex>

#include "engine/replay.h"

namespace ronde::engine {

Descriptor Replay::described(const Request& request) const {
  Descriptor descriptor = describe(request);
  descriptor.heap_place = backend_.place_of(request);
  return descriptor;
}

bool Replay::is_withdrawn(const HeapPlace& place, const Descriptor& descriptor) const {
  return place.is_known() && backend_.is_withdrawn(place, payload_bytes(descriptor));
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
          is_withdrawn(member.places[static_cast<std::size_t>(peers_.self())], member.descriptor)) {
        member_.step(agreement::LocalReason{agreement::Reason::descriptor, id}, *this);
        return;
      }
    }
  }
}

}  // namespace ronde::engine
