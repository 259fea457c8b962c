#include "types/bucket.h"

#include <algorithm>

namespace ronde {

namespace {

void write_members(ByteWriter& writer, const std::vector<BucketMember>& members) {
  writer.put(static_cast<std::uint32_t>(members.size()));
  for (const BucketMember& member : members) {
    writer.put_string(member.name);
    write(writer, member.descriptor);
    write(writer, member.places);
    writer.put_string(member.planning_name);
    writer.put(member.turn);
  }
}

}  // namespace

std::string_view bucket_kind_name(BucketKind kind) {
  switch (kind) {
    case BucketKind::inlined: return "inline";
    case BucketKind::staged: return "staged";
    case BucketKind::ordered: return "ordered";
    case BucketKind::direct: return "direct";
  }
  return "unknown";
}

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

void write(ByteWriter& writer, const Bucket& bucket) {
  writer.put(bucket.id);
  writer.put(bucket.kind);
  writer.put_string(bucket.layout);
  write_members(writer, bucket.members);
}

Bucket read_bucket(ByteReader& reader) {
  Bucket bucket;
  bucket.id = reader.get<std::uint32_t>();
  bucket.kind = reader.get<BucketKind>();
  bucket.layout = reader.get_string();
  bucket.members.resize(reader.get_count(8));
  for (BucketMember& member : bucket.members) {
    member.name = reader.get_string();
    member.descriptor = read_descriptor(reader);
    member.places = read_memory_places(reader);
    member.planning_name = reader.get_string();
    member.turn = reader.get<std::uint32_t>();
  }
  return bucket;
}

}  // namespace ronde
