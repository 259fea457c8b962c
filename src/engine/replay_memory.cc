// Where tensors lie in the heap, and what becomes of that when requests end in an error (engine_memory.cc).
#include <mutex>

#include "engine/replay.h"

namespace ronde::engine {

HeapPlace place_in_heap(const Request& request, const transport::HostArena& arena) {
  if (request.kind != OpKind::allreduce || request.tensors.size() != 1) {
    return {};
  }
  const RequestTensor& pair = request.tensors.front();
  const std::size_t bytes = pair.input.bytes();
  const auto element = static_cast<std::int64_t>(dtype_bytes(pair.input.dtype));
  const auto offset_of = [&](const void* data) {
    const std::int64_t offset = bytes == 0 ? kNoOffset : arena.heap_offset_of(data, bytes);
    return offset >= 0 && offset % element == 0 ? offset : kNoOffset;
  };
  const std::int64_t from = offset_of(pair.input.data);
  const std::int64_t to = pair.input.data == pair.output.data || from == kNoOffset ? from : offset_of(pair.output.data);
  return to == kNoOffset ? HeapPlace() : HeapPlace(from, to);
}

Descriptor describe_here(const Request& request, const transport::HostArena& arena) {
  Descriptor descriptor = describe(request);
  descriptor.heap_place = place_in_heap(request, arena);
  return descriptor;
}

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
