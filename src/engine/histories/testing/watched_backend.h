// WatchedBackend: the backend of messages, with thresholds so small that short tensors take every way, refusals now and
// then, and on request a fault.
#pragma once

#include <memory>
#include <utility>

#include "engine/histories/testing/faults.h"
#include "engine/testing/forwarding_backend.h"

namespace ronde::engine::histories {

class WatchedBackend final : public ForwardingBackend {
 public:
  /// `refusals`: so many buckets are refused yet, by all ranks together. Both must outlive the backend.
  WatchedBackend(std::unique_ptr<backend::Backend> inner, int own, const Thresholds& thresholds, int& refusals,
                 Fault fault)
      : ForwardingBackend(std::move(inner)), own_(own), thresholds_(thresholds), refusals_(refusals), fault_(fault) {
    ForwardingBackend::set_thresholds(thresholds);
  }

  /// A plan is under way.
  bool is_running() const { return running_ > 0; }

  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override {
    RONDE_ASSIGN_OR_RETURN(std::unique_ptr<Operation> inner, ForwardingBackend::launch(plan));
    return std::unique_ptr<Operation>(std::make_unique<WatchedOperation>(*this, std::move(inner)));
  }
  Thresholds first_thresholds() const override { return thresholds_; }
  Result<std::unique_ptr<PersistentCollective>> prepare(const Bucket& bucket, const Thresholds& thresholds) override {
    if (refusals_ > 0) {
      --refusals_;
      return Status::error(Code::out_of_memory, "refused by lot");
    }
    Result<std::unique_ptr<PersistentCollective>> made = ForwardingBackend::prepare(bucket, thresholds);
    if (made && fault_ != Fault::none) {
      std::unique_ptr<PersistentCollective> faulty = std::make_unique<FaultyCollective>(std::move(*made), own_, fault_);
      return faulty;
    }
    return made;
  }

 private:
  class WatchedOperation final : public Operation {
   public:
    WatchedOperation(WatchedBackend& backend, std::unique_ptr<Operation> inner)
        : backend_(backend), inner_(std::move(inner)) {
      ++backend_.running_;
    }
    ~WatchedOperation() override { --backend_.running_; }
    Progress advance() override {
      const Progress progress = inner_->advance();
      return backend_.fault_ == Fault::plan_done_too_early && progress == Progress::again ? Progress::done : progress;
    }
    std::vector<int> waiting_for() const override { return inner_->waiting_for(); }

   private:
    WatchedBackend& backend_;
    const std::unique_ptr<Operation> inner_;
  };

  class FaultyCollective final : public PersistentCollective {
   public:
    FaultyCollective(std::unique_ptr<PersistentCollective> inner, int own, Fault fault)
        : inner_(std::move(inner)), own_(own), fault_(fault) {}
    const Bucket& description() const override { return inner_->description(); }
    void enter(std::uint32_t epoch) override { inner_->enter(epoch); }
    void bind(std::size_t member, std::span<const RequestTensor> tensors) override { inner_->bind(member, tensors); }
    void copy_in(std::size_t member) override { inner_->copy_in(member); }
    void publish(std::uint64_t calls) override { inner_->publish(fault_ == Fault::calls_not_compared ? 0 : calls); }
    Progress advance() override {
      const Progress progress = inner_->advance();
      return fault_ == Fault::instance_done_too_early && progress == Progress::again ? Progress::done : progress;
    }
    void cancel() override { inner_->cancel(); }
    bool was_void() const override { return inner_->was_void(); }
    std::uint64_t published_by(int rank) const override {
      // What the others have published is not looked at.
      return inner_->published_by(fault_ == Fault::decided_alone ? own_ : rank);
    }
    std::vector<int> waiting_for() const override { return inner_->waiting_for(); }

   private:
    const std::unique_ptr<PersistentCollective> inner_;
    const int own_;
    const Fault fault_;
  };

  const int own_;
  const Thresholds thresholds_;
  int& refusals_;
  const Fault fault_;
  int running_ = 0;
};

}  // namespace ronde::engine::histories
