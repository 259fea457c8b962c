// Backend: executes plans with one library.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "types/plan.h"

namespace ronde::backend {

/// What one call of advance() came to.
enum class Progress {
  done,   ///< the operation is complete
  again,  ///< something moved; call again soon
  idle,   ///< nothing can move until a peer does something
};

/// One plan under way: a resumable state machine. advance() never blocks and moves at most 1 MB.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual Progress advance() = 0;
  /// The group indices of the ranks that this operation waits for just now; for reports, may be empty.
  virtual std::vector<int> waiting_for() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Ok if this backend can execute the plan, else NOT_IMPLEMENTED with the reason. The same on every rank.
  virtual Status supports(const Plan& plan) const = 0;
  /// Begins the plan. Plans of one backend are launched and finished one at a time, in the same order on every rank.
  /// `plan` must outlive the operation.
  virtual std::unique_ptr<Operation> launch(const Plan& plan) = 0;
};

}  // namespace ronde::backend
