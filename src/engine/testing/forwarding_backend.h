// A backend that hands everything on to another one: for tests that change one of its answers.
#pragma once

#include <memory>
#include <utility>

#include "backend/backend.h"

namespace ronde::engine {

class ForwardingBackend : public backend::Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<backend::Backend> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  Status supports(const Plan& plan) const override { return inner_->supports(plan); }
  bool is_ordered() const override { return inner_->is_ordered(); }
  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override { return inner_->launch(plan); }
  Thresholds first_thresholds() const override { return inner_->first_thresholds(); }
  void set_thresholds(const Thresholds& thresholds) override { inner_->set_thresholds(thresholds); }
  std::string table_row(const Thresholds& thresholds) const override { return inner_->table_row(thresholds); }
  BucketLayout* layout() override { return inner_->layout(); }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds& thresholds) override {
    return inner_->prepare(bucket, thresholds);
  }
  void begin_epoch(const Thresholds& thresholds) override { inner_->begin_epoch(thresholds); }
  MemoryPlace place_of(const Request& request) const override { return inner_->place_of(request); }
  bool may_reduce_at(const MemoryPlaces& places) const override { return inner_->may_reduce_at(places); }
  bool is_withdrawn(const MemoryPlace& place, std::uint64_t bytes) const override {
    return inner_->is_withdrawn(place, bytes);
  }

 private:
  std::unique_ptr<backend::Backend> inner_;
};

}  // namespace ronde::engine
