#include "backend/staged/staged_backend.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "backend/staged/staged_bucket.h"
#include "backend/staged/staged_plan.h"
#include "types/operations.h"

namespace ronde::backend {

namespace {

std::optional<StagedReduction> reduction_of_bucket(const Bucket& bucket, const CollectiveLibrary& library) {
  const Descriptor& first = bucket.members.front().descriptor;
  return StagedReduction::of({first.tensors.front().dtype, first.reduce_op, first.prescale, first.postscale}, library,
                             OpKind::allreduce);
}

/// Buckets lie nowhere. What the library does not reduce is not replayed.
class StagedLayout final : public BucketLayout {
 public:
  explicit StagedLayout(const CollectiveLibrary& library) : library_(library) {}

  int fusion_class(const MemoryPlaces&) const override { return 0; }
  std::optional<Placed> place(const Bucket& bucket, const ByteLimits&) override {
    const std::optional<StagedReduction> reduction = reduction_of_bucket(bucket, library_);
    const std::size_t bytes = payload_bytes(bucket);
    const std::size_t counted = reduction && reduction->is_gathered() ? reduction->received(bytes) : bytes;
    const bool is_counted = counted <= std::size_t{std::numeric_limits<int>::max()};  // as libraries count
    return is_counted && reduction ? std::optional(Placed()) : std::nullopt;
  }
  void take_back(const Bucket&) override {}

 private:
  const CollectiveLibrary& library_;
};

class StagedBackend final : public Backend {
 public:
  StagedBackend(std::unique_ptr<Backend> within, std::shared_ptr<CollectiveLibrary> library)
      : within_(std::move(within)), library_(std::move(library)), layout_(*library_) {}

  std::string_view name() const override { return library_->backend(); }
  bool is_ordered() const override { return true; }
  Status supports(const Plan& plan) const override { return within_->supports(plan); }
  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override {
    std::optional<StagedReduction> reduction = reduction_of(plan);
    if (!takes(plan, reduction, *library_)) {
      return within_->launch(plan);
    }
    return start_plan(*library_, plan, std::move(reduction), staging_);
  }
  Thresholds first_thresholds() const override { return within_->first_thresholds(); }
  void set_thresholds(const Thresholds& thresholds) override { within_->set_thresholds(thresholds); }
  std::string table_row(const Thresholds& thresholds) const override { return within_->table_row(thresholds); }

  BucketLayout* layout() override { return library_->size() > 1 ? &layout_ : nullptr; }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds&) override {
    std::optional<StagedReduction> reduction = reduction_of_bucket(bucket, *library_);
    if (!reduction) {
      return Status::error(Code::not_implemented, "bucket " + std::to_string(bucket.id) +
                                                      " is of a type or reduction that backend " + std::string(name()) +
                                                      " does not have");
    }
    return std::unique_ptr<PersistentCollective>(
        std::make_unique<StagedBucket>(*library_, bucket, std::move(*reduction)));
  }
  void begin_epoch(const Thresholds& thresholds) override { within_->begin_epoch(thresholds); }
  MemoryPlace place_of(const Request&) const override { return {}; }
  bool may_reduce_at(const MemoryPlaces&) const override { return false; }
  bool is_withdrawn(const MemoryPlace&, std::uint64_t) const override { return false; }

 private:
  std::optional<StagedReduction> reduction_of(const Plan& plan) const {
    return reduces(plan.kind)
               ? StagedReduction::of({plan.dtype, plan.reduce_op, plan.prescale, plan.postscale}, *library_, plan.kind)
               : std::nullopt;
  }

  const std::unique_ptr<Backend> within_;
  const std::shared_ptr<CollectiveLibrary> library_;
  StagedLayout layout_;
  StagingPair staging_;
};

}  // namespace

std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> within,
                                             std::shared_ptr<CollectiveLibrary> library) {
  return std::make_unique<StagedBackend>(std::move(within), std::move(library));
}

}  // namespace ronde::backend
