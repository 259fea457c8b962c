// OrderedBackend: a backend for which every rank must launch in one order, as NCCL and MPI have it, over one that needs
// none: plans and instances of buckets together. It fails where a rank launches something else than the others did at
// that point. The ranks of a test are in one process, so they compare by a list that they share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/forwarding_backend.h"

namespace ronde::engine {

/// What the ranks of one group have launched. Any thread.
class LaunchOrder {
 public:
  explicit LaunchOrder(int ranks) : launched_(static_cast<std::size_t>(ranks)) {}

  /// INTERNAL if another rank, at this point, has launched something else.
  Status launch(int rank, const std::string& what) {
    std::lock_guard lock(mutex_);
    std::size_t& at = launched_[static_cast<std::size_t>(rank)];
    if (at == order_.size()) {
      order_.push_back(what);
    }
    const std::string& first = order_[at++];
    if (first == what) {
      return {};
    }
    failure_ = failure_.empty() ? "launch " + std::to_string(at) + " of rank " + std::to_string(rank) + " is " + what +
                                      ", and on another rank it was " + first
                                : failure_;
    return Status::error(Code::internal, failure_);
  }
  /// Empty if all is well.
  std::string failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }
  /// By all ranks together, each once.
  std::vector<std::string> all() const {
    std::lock_guard lock(mutex_);
    return order_;
  }
  std::size_t launched_by(int rank) const {
    std::lock_guard lock(mutex_);
    return launched_[static_cast<std::size_t>(rank)];
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> order_;
  std::vector<std::size_t> launched_;  ///< by rank how many of them
  std::string failure_;
};

/// The first call of advance() launches the instance.
class OrderedCollective final : public PersistentCollective {
 public:
  OrderedCollective(std::unique_ptr<PersistentCollective> inner, LaunchOrder& order, int rank)
      : inner_(std::move(inner)), order_(order), rank_(rank) {}

  const Bucket& description() const override { return inner_->description(); }
  void enter(std::uint32_t epoch) override {
    epoch_ = epoch;
    instances_ = 0;
    is_launched_ = false;
    inner_->enter(epoch);
  }
  void bind(std::size_t member, std::span<const RequestTensor> tensors) override { inner_->bind(member, tensors); }
  void copy_in(std::size_t member) override { inner_->copy_in(member); }
  void publish(std::uint64_t calls) override { inner_->publish(calls); }
  Progress advance() override {
    if (!std::exchange(is_launched_, true)) {
      // An instance has no status; the order remembers what was wrong.
      static_cast<void>(order_.launch(rank_, "instance " + std::to_string(++instances_) + " of bucket " +
                                                 std::to_string(description().id) + " in epoch " +
                                                 std::to_string(epoch_)));
    }
    const Progress progress = inner_->advance();
    is_launched_ = progress != Progress::done;
    return progress;
  }
  void cancel() override { inner_->cancel(); }
  bool was_void() const override { return inner_->was_void(); }
  std::uint64_t published_by(int rank) const override { return inner_->published_by(rank); }
  std::vector<int> waiting_for() const override { return inner_->waiting_for(); }
  std::vector<MemorySpan> exposed() const override { return inner_->exposed(); }

 private:
  const std::unique_ptr<PersistentCollective> inner_;
  LaunchOrder& order_;
  const int rank_;
  std::uint32_t epoch_ = 0;
  std::uint64_t instances_ = 0;
  bool is_launched_ = false;
};

class OrderedBackend final : public ForwardingBackend {
 public:
  /// `order`: of all ranks. `says_so`: else the engine is not told that one order is needed.
  OrderedBackend(std::unique_ptr<backend::Backend> inner, std::shared_ptr<LaunchOrder> order, int rank,
                 bool says_so = true)
      : ForwardingBackend(std::move(inner)), order_(std::move(order)), rank_(rank), says_so_(says_so) {}

  bool is_ordered() const override { return says_so_; }
  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override {
    const std::string name = plan.members.empty() ? std::string() : " of '" + plan.members.front().name + "'";
    RONDE_RETURN_IF_ERROR(order_->launch(rank_, "a plan" + name));
    return ForwardingBackend::launch(plan);
  }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds& thresholds) override {
    RONDE_ASSIGN_OR_RETURN(std::unique_ptr<PersistentCollective> inner, ForwardingBackend::prepare(bucket, thresholds));
    return std::unique_ptr<PersistentCollective>(std::make_unique<OrderedCollective>(std::move(inner), *order_, rank_));
  }

 private:
  const std::shared_ptr<LaunchOrder> order_;
  const int rank_;
  const bool says_so_;
};

}  // namespace ronde::engine
