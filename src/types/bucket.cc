#include "types/bucket.h"

#include <algorithm>

namespace ronde {

bool has_unnamed(const Bucket& bucket) {
  return std::any_of(bucket.members.begin(), bucket.members.end(),
                     [](const BucketMember& member) { return member.is_unnamed(); });
}

std::uint64_t payload_bytes(const Descriptor& descriptor) {
  std::uint64_t bytes = 0;
  for (const Descriptor::Spec& spec : descriptor.tensors) {
    bytes += static_cast<std::uint64_t>(element_count(spec.shape)) * dtype_bytes(spec.dtype);
  }
  return bytes;
}

std::uint64_t payload_bytes(const Bucket& bucket) {
  std::uint64_t bytes = 0;
  for (const BucketMember& member : bucket.members) {
    bytes += payload_bytes(member.descriptor);
  }
  return bytes;
}

bool fits(const BucketMember& member, const Descriptor& descriptor, int index) {
  return member.descriptor == descriptor &&
         (member.places.empty() || member.places[static_cast<std::size_t>(index)] == descriptor.memory_place);
}

}  // namespace ronde
