// Operation: a plan under way, as a resumable state machine.
#pragma once

#include <vector>

namespace ronde {

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

}  // namespace ronde
