// CallsInTurn: a thread that makes calls that wait, one after the other, for somebody who never does.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::backend::oneccl {

/// Any thread. The thread and what it runs outlive the last owner, if they must.
class CallsInTurn {
 public:
  enum class State { waiting, succeeded, failed };
  class Call;

  /// SYSTEM_ERROR without a descriptor or a thread.
  static Result<std::shared_ptr<CallsInTurn>> start();

  /// Behind all that were given before. `call` returns whether it was successful.
  std::shared_ptr<Call> add(std::function<bool()> call);
  State state_of(const Call& call) const;
  /// Waiting: it has not ended within the limit.
  State wait_for(const Call& call, Nanoseconds limit);
  /// Those that have not begun never will, but what is added later.
  void drop_waiting();
  /// The thread ends behind what was added before. False: it has not ended within the limit.
  bool finish(Nanoseconds limit);

  /// Readable while calls have ended of which nobody has taken note.
  int fd() const { return ended_fd_.get(); }
  /// Of one that has ended.
  void take_note() const;

 private:
  CallsInTurn() = default;
  void run();

  UniqueFd ended_fd_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Call>> waiting_;
  bool is_last_ = false;    ///< nothing is added any more
  bool has_ended_ = false;  ///< the thread
};

}  // namespace ronde::backend::oneccl
