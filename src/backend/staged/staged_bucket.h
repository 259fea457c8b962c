// StagedBucket: a bucket in replay as an all-reduce of somebody else's library. Members are copied into one piece of
// memory as they come, and back when the library has done; ranks launch in the order of the log (is_ordered()). It goes
// in one piece: a second one would be begun when the first has ended, which on another rank may be before or behind the
// next bucket's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/staged/staged_plan.h"
#include "collectives/gather_list.h"
#include "types/persistent_collective.h"

namespace ronde::backend {

/// bind(), copy_in(), publish(): any thread, as PersistentCollective says; all else under the progress lock.
class StagedBucket final : public PersistentCollective {
 public:
  /// Requires: its tensors are private, and the library has the reduction.
  StagedBucket(CollectiveLibrary& library, const Bucket& bucket, StagedReduction reduction);
  ~StagedBucket() override;

  const Bucket& description() const override { return bucket_; }
  void enter(std::uint32_t epoch) override;
  void bind(std::size_t member, std::span<const RequestTensor> tensors) override;
  void copy_in(std::size_t member) override;
  void publish(std::uint64_t calls) override;
  Progress advance() override;
  void cancel() override;
  bool was_void() const override { return false; }
  std::uint64_t published_by(int) const override { return 0; }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  enum class Stage { at_rest, under_way, copy_out, failed };

  bool begin();

  CollectiveLibrary& library_;
  const Bucket bucket_;
  const StagedReduction reduction_;
  RankParts parts_;  ///< of what is gathered
  collectives::GatherList list_;
  std::vector<std::size_t> first_segments_;  ///< by member; one more, behind the last
  StagingPair staging_;                      ///< of two, since Open MPI 4 reduces in place at half the speed
  std::byte* memory_ = nullptr;
  std::byte* result_ = nullptr;
  Underway request_ = nullptr;
  Stage stage_ = Stage::at_rest;
  std::size_t at_ = 0;  ///< bytes copied out
};

}  // namespace ronde::backend
