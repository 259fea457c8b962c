// Tensors in shared memory, reduced where they lie (shared_slice.h): nothing is copied in or out, two waits.
#include "collectives/persistent/bucket_kinds.h"
#include "collectives/shm/shared_slice.h"

namespace ronde::collectives {

namespace {

std::vector<SharedTensor> shared_tensors(const Bucket& bucket) {
  std::vector<SharedTensor> tensors;
  for (const BucketMember& member : bucket.members) {
    tensors.push_back({member.places, payload_bytes(member.descriptor)});
  }
  return tensors;
}

class DirectBucket final : public HostBucket {
 public:
  DirectBucket(transport::HostArena& arena, const Bucket& bucket)
      : HostBucket(arena, bucket), slice_(arena, reduction(), shared_tensors(bucket)) {}

  void bind(std::size_t, std::span<const RequestTensor>) override {}
  void copy_in(std::size_t) override {}

  Progress advance() override {
    if (!is_reduced_) {
      if (!all_published()) {
        return Progress::idle;
      }
      if (!is_begun_ && is_void()) {
        return complete_void();
      }
      is_begun_ = true;
      Budget budget;
      if (!slice_.advance(budget)) {
        return Progress::again;
      }
      is_reduced_ = true;
      set_done();
      start_looking();
    }
    return all_done() ? complete() : Progress::idle;
  }

  std::uint64_t published_by(int rank) const override { return line(rank).published.instance(epoch()); }
  std::vector<int> waiting_for() const override { return is_reduced_ ? not_done() : not_published(); }
  std::vector<MemorySpan> exposed() const override {
    std::vector<MemorySpan> spans;
    for (const BucketMember& member : description().members) {
      const MemoryPlace& own = member.places[static_cast<std::size_t>(rank())];
      if (is_published() && payload_bytes(member.descriptor) > 0) {
        spans.push_back({static_cast<std::size_t>(own.output), payload_bytes(member.descriptor)});
      }
    }
    return spans;
  }

 private:
  void reset() override {
    is_begun_ = false;
    is_reduced_ = false;
    slice_.restart();
  }

  SharedSlice slice_;
  bool is_begun_ = false;
  bool is_reduced_ = false;
};

}  // namespace

std::unique_ptr<HostBucket> make_direct_bucket(transport::HostArena& arena, const Bucket& bucket) {
  return std::make_unique<DirectBucket>(arena, bucket);
}

}  // namespace ronde::collectives
