// UnfinishedPlans: of the plans that one request is spread over, how many have not ended, and how the others did. A
// request with several tensors may be spread over several.
#pragma once

#include "base/status.h"

namespace ronde::engine {

/// Under the progress lock.
class UnfinishedPlans {
 public:
  void expect(int count) {
    left_ = count;
    status_ = {};
  }
  /// One has ended. True if it was the last.
  bool finished(const Status& status) {
    if (status_.is_ok()) {
      status_ = status;
    }
    return --left_ == 0;
  }
  /// The first failure, which is the request's.
  const Status& status() const { return status_; }

 private:
  Status status_;
  int left_ = 0;
};

}  // namespace ronde::engine
