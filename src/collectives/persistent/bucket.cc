#include "collectives/persistent/bucket.h"

#include "collectives/persistent/bucket_kinds.h"
#include "collectives/shm/last_comer.h"

namespace ronde::collectives {

reduce::Reduction reduction_of(const Bucket& bucket) {
  const Descriptor& first = bucket.members.front().descriptor;
  return {first.tensors.front().dtype, first.reduce_op, first.prescale, first.postscale};
}

HostBucket::HostBucket(transport::HostArena& arena, const Bucket& bucket)
    : arena_(arena),
      bells_(arena.bells()),
      bucket_(bucket),
      layout_(*read_layout(bucket.layout)),
      rank_(arena.rank()),
      size_(arena.size()),
      reduction_(reduction_of(bucket)),
      has_unnamed_(ronde::has_unnamed(bucket)) {
  for (int rank = 0; rank < size_; ++rank) {
    lines_.push_back(reinterpret_cast<Line*>(arena.heap(rank) + layout_.line));
  }
  for (std::uint64_t at = 0; at < line_bytes(layout_.kind); at += transport::kLineBytes) {
    new (arena.heap(rank_) + layout_.line + at) Line();
  }
  for (const BucketMember& member : bucket_.members) {
    first_segment_.push_back(list_.segment_count());
    const std::size_t begin = list_.bytes();
    for (const Descriptor::Spec& tensor : member.descriptor.tensors) {
      list_.append(nullptr, nullptr, static_cast<std::size_t>(element_count(tensor.shape)) * dtype_bytes(tensor.dtype));
    }
    positions_.push_back({begin, list_.bytes()});
  }
}

void HostBucket::enter(std::uint32_t epoch) {
  epoch_ = epoch;
  instance_ = 0;
  cancel();
}

void HostBucket::bind(std::size_t member, std::span<const RequestTensor> tensors) {
  std::size_t segment = first_segment_[member];
  for (const RequestTensor& tensor : tensors) {
    if (tensor.input.bytes() > 0) {
      list_.rebind(segment++, tensor.input.data, tensor.output.data);
    }
  }
}

void HostBucket::publish(std::uint64_t calls) {
  wanted_ = BucketWord::Codec::encode(epoch_, instance_ + 1);
  is_published_ = true;
  was_void_ = false;
  if (has_unnamed_) {
    calls_of(rank_).store(calls, std::memory_order_relaxed);
  }
  store_published(wanted_);
  wake_others_if_last(bells_, rank_, size_, [this](int peer) { return published_word(peer).has_reached(wanted_); });
}

void HostBucket::cancel() {
  is_published_ = false;
  start_looking();
  reset();
}

void HostBucket::set_done() {
  line(rank_).done.store(wanted_);
  wake_others_if_last(bells_, rank_, size_, [this](int peer) { return line(peer).done.has_reached(wanted_); });
}

bool HostBucket::is_void() const {
  if (!has_unnamed_) {
    return false;
  }
  const std::uint64_t own = calls_of(rank_).load(std::memory_order_relaxed);
  for (int distance = 1; distance < size_; ++distance) {
    if (calls_of(after(distance)).load(std::memory_order_relaxed) != own) {
      return true;
    }
  }
  return false;
}

Progress HostBucket::complete_void() {
  was_void_ = true;
  return complete();
}

Progress HostBucket::complete() {
  ++instance_;
  cancel();
  return Progress::done;
}

std::unique_ptr<HostBucket> make_bucket(transport::HostArena& arena, const Bucket& bucket, const Thresholds& thresholds,
                                        OrderedLane* lane) {
  switch (read_layout(bucket.layout)->kind) {
    case BucketKind::inlined: return make_inline_bucket(arena, bucket);
    case BucketKind::staged:
      return payload_bytes(bucket) <= thresholds.one_shot ? make_one_shot_bucket(arena, bucket)
                                                          : make_two_phase_bucket(arena, bucket);
    case BucketKind::ordered: return lane == nullptr ? nullptr : make_ordered_bucket(arena, bucket, *lane);
    case BucketKind::direct: return make_direct_bucket(arena, bucket);
  }
  return nullptr;
}

}  // namespace ronde::collectives
