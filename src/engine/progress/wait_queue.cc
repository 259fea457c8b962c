#include "engine/progress/wait_queue.h"

#include "base/futex.h"

namespace ronde::engine {

Status wait_limit_passed() {
  return Status::error(Code::timed_out, "Timed out: the wait's own limit has passed; the request is still under way");
}

Status wait_interrupted() {
  return Status::error(Code::interrupted, "a signal interrupted the wait; the request is still under way");
}

Status WaitQueue::Seat::sleep(Nanoseconds limit) {
  if (limit <= 0) {
    return wait_limit_passed();
  }
  return futex_wait(queue_.calls_, seen_, limit) == FutexResult::interrupted ? wait_interrupted() : Status();
}

void WaitQueue::call() {
  calls_.fetch_add(1);
  futex_wake_all(calls_);
}

}  // namespace ronde::engine
