#include "backend/shm/shm_buckets.h"

#include <algorithm>

#include "collectives/persistent/bucket.h"
#include "reduce/reduce.h"

namespace ronde::backend {

namespace {

using collectives::BucketKind;

Status refused(const Bucket& bucket, const char* why) {
  return Status::error(Code::invalid_argument, "bucket " + std::to_string(bucket.id) + " cannot be made: " + why);
}

/// Every member of a direct bucket has a place on each rank, others have none or all.
bool do_places_fit(const Bucket& bucket, BucketKind kind, int ranks) {
  return std::all_of(bucket.members.begin(), bucket.members.end(), [&](const BucketMember& member) {
    return member.places.empty() ? kind != BucketKind::direct : member.places.size() == static_cast<std::size_t>(ranks);
  });
}

}  // namespace

ShmBuckets::ShmBuckets(transport::HostArena& arena) : arena_(arena), lane_thresholds_(arena.control(0).rules) {
  if (arena.size() > 1 && arena.own_heap().engine_bytes() > collectives::OrderedLane::bytes(arena.size())) {
    layouts_.emplace(arena.own_heap().engine_bytes(), arena.size());
  }
}

Result<std::unique_ptr<PersistentCollective>> ShmBuckets::prepare(const Bucket& bucket, const Thresholds& thresholds) {
  const std::optional<collectives::HostLayout> layout = collectives::read_layout(bucket.layout);
  if (!layout) {
    return refused(bucket, "its layout is not one of this release's");
  }
  if (!do_places_fit(bucket, layout->kind, arena_.size())) {
    return refused(bucket, "its tensors lie elsewhere than its kind needs");
  }
  if (layout->kind == BucketKind::ordered && lane_ && lane_->is_full()) {
    return refused(bucket, "the lane of large private tensors is full");  // every rank counts alike
  }
  const Descriptor& first = bucket.members.front().descriptor;
  RONDE_RETURN_IF_ERROR(
      reduce::supports({first.tensors.front().dtype, first.reduce_op, first.prescale, first.postscale}));
  RONDE_RETURN_IF_ERROR(
      arena_.own_heap().commit(static_cast<std::size_t>(layout->line), collectives::line_bytes(layout->kind)));
  if (const std::uint64_t bytes = collectives::slots_bytes(layout->kind, payload_bytes(bucket)); bytes > 0) {
    RONDE_RETURN_IF_ERROR(arena_.own_heap().commit(static_cast<std::size_t>(layout->slots), bytes));
  }
  if (layout->kind == BucketKind::ordered) {
    RONDE_RETURN_IF_ERROR(open_lane());
  }
  std::unique_ptr<PersistentCollective> made = collectives::make_bucket(arena_, bucket, thresholds, lane_.get());
  return made;
}

/// A rank may open its lane later than others, so what it opens it with is kept, not looked up.
void ShmBuckets::begin_epoch(const Thresholds& thresholds) {
  lane_thresholds_.set(thresholds);
  if (lane_) {
    lane_->set_thresholds(thresholds);
  }
}

Status ShmBuckets::open_lane() {
  if (lane_) {
    return {};
  }
  RONDE_RETURN_IF_ERROR(arena_.own_heap().commit(0, collectives::OrderedLane::bytes(arena_.size())));
  lane_ = std::make_unique<collectives::OrderedLane>(arena_, 0, lane_thresholds_.in_force());
  return {};
}

MemoryPlace place_in_heap(const transport::HostArena& arena, const Request& request) {
  if (request.kind != OpKind::allreduce || request.tensors.size() != 1) {
    return {};
  }
  const RequestTensor& pair = request.tensors.front();
  const std::size_t bytes = pair.input.bytes();
  const auto element = static_cast<std::int64_t>(dtype_bytes(pair.input.dtype));
  const auto offset_of = [&](const void* data) {
    const std::int64_t offset = bytes == 0 ? kNoOffset : arena.own_heap().offset_of(data, bytes);
    return offset >= 0 && offset % element == 0 ? offset : kNoOffset;
  };
  const std::int64_t from = offset_of(pair.input.data);
  const std::int64_t to = pair.input.data == pair.output.data || from == kNoOffset ? from : offset_of(pair.output.data);
  return to == kNoOffset ? MemoryPlace() : MemoryPlace(from, to);
}

bool lie_alike(const MemoryPlaces& places) {
  constexpr auto kLine = static_cast<std::int64_t>(kBucketLineBytes);
  const std::int64_t in_line = places.front().input % kLine;
  return std::all_of(places.begin(), places.end(), [&](const MemoryPlace& place) {
    return place.input % kLine == in_line && place.output % kLine == in_line;
  });
}

}  // namespace ronde::backend
