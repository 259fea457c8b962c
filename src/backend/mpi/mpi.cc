#include "backend/mpi/mpi.h"

#include <limits>
#include <string>
#include <utility>

#include "backend/mpi/mpi_bucket.h"
#include "backend/mpi/mpi_plan.h"
#include "backend/mpi/mpi_world.h"
#include "types/operations.h"

namespace ronde::backend {

namespace {

using mpi::MpiBucket;
using mpi::MpiReduction;
using mpi::MpiWorld;

std::optional<MpiReduction> reduction_of_bucket(const Bucket& bucket, const MpiWorld& world) {
  const Descriptor& first = bucket.members.front().descriptor;
  return MpiReduction::of({first.tensors.front().dtype, first.reduce_op, first.prescale, first.postscale},
                          world.library().constants(), world.size());
}

/// Buckets lie nowhere. What MPI does not reduce is not replayed.
class MpiLayout final : public BucketLayout {
 public:
  explicit MpiLayout(const MpiWorld& world) : world_(world) {}

  int fusion_class(const MemoryPlaces&) const override { return 0; }
  std::optional<Placed> place(const Bucket& bucket, const ByteLimits&) override {
    const bool is_counted = payload_bytes(bucket) <= std::numeric_limits<int>::max();  // as MPI counts
    return is_counted && reduction_of_bucket(bucket, world_) ? std::optional(Placed()) : std::nullopt;
  }
  void take_back(const Bucket&) override {}

 private:
  const MpiWorld& world_;
};

class BackendOverMpi final : public Backend {
 public:
  BackendOverMpi(std::unique_ptr<Backend> within, MpiWorld& world)
      : within_(std::move(within)), world_(world), layout_(world) {}

  std::string_view name() const override { return "mpi"; }
  bool is_ordered() const override { return true; }
  Status supports(const Plan& plan) const override { return within_->supports(plan); }
  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override {
    std::optional<MpiReduction> reduction = reduction_of(plan);
    if (!mpi::takes(plan, reduction, world_.size())) {
      return within_->launch(plan);
    }
    return mpi::start_plan(world_, plan, std::move(reduction), staging_);
  }
  Thresholds first_thresholds() const override { return within_->first_thresholds(); }
  void set_thresholds(const Thresholds& thresholds) override { within_->set_thresholds(thresholds); }

  BucketLayout* layout() override { return world_.size() > 1 ? &layout_ : nullptr; }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds&) override {
    std::optional<MpiReduction> reduction = reduction_of_bucket(bucket, world_);
    if (!reduction) {
      return Status::error(Code::not_implemented,
                           "bucket " + std::to_string(bucket.id) + " is of a type or reduction that MPI does not have");
    }
    return std::unique_ptr<PersistentCollective>(std::make_unique<MpiBucket>(world_, bucket, std::move(*reduction)));
  }
  void begin_epoch(const Thresholds& thresholds) override { within_->begin_epoch(thresholds); }
  MemoryPlace place_of(const Request&) const override { return {}; }
  bool may_reduce_at(const MemoryPlaces&) const override { return false; }
  bool is_withdrawn(const MemoryPlace&, std::uint64_t) const override { return false; }

 private:
  std::optional<MpiReduction> reduction_of(const Plan& plan) const {
    return reduces(plan.kind) ? MpiReduction::of({plan.dtype, plan.reduce_op, plan.prescale, plan.postscale},
                                                 world_.library().constants(), world_.size())
                              : std::nullopt;
  }

  const std::unique_ptr<Backend> within_;
  MpiWorld& world_;
  MpiLayout layout_;
  mpi::StagingPair staging_;
};

}  // namespace

Result<MpiBackend> make_mpi_backend(std::unique_ptr<Backend> within, int rank, int size) {
  RONDE_ASSIGN_OR_RETURN(MpiWorld* const world, MpiWorld::join(rank, size));
  return MpiBackend{std::make_unique<BackendOverMpi>(std::move(within), *world), world->news_fd(),
                    world->library().name()};
}

Status begin_mpi() { return MpiWorld::begin(); }

bool mpi_allows_threads() { return MpiWorld::allows_threads(); }

void end_mpi_at_exit() { MpiWorld::end_at_exit(); }

}  // namespace ronde::backend
