// Backend: executes plans with one library.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "types/operation.h"
#include "types/plan.h"
#include "types/thresholds.h"

namespace ronde::backend {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Ok if this backend can execute the plan, else NOT_IMPLEMENTED with the reason. The same on every rank.
  virtual Status supports(const Plan& plan) const = 0;
  /// Begins the plan. Plans of one backend are launched and finished one at a time, in the same order on every rank.
  /// `plan` must outlive the operation.
  virtual std::unique_ptr<Operation> launch(const Plan& plan) = 0;
  /// What all ranks begin with, as the first of them has it; the log tells of other rows. Any thread.
  virtual Thresholds first_thresholds() const = 0;
  /// For the plans launched from now on. Every rank calls it between the same two plans.
  virtual void set_thresholds(const Thresholds&) {}
};

}  // namespace ronde::backend
