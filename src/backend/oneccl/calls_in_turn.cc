#include "backend/oneccl/calls_in_turn.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/thread.h"

namespace ronde::backend::oneccl {

namespace {

/// kNever, added to now, would be the past.
std::chrono::nanoseconds span_of(Nanoseconds limit) {
  constexpr Nanoseconds kYear = 365 * 24 * 3600 * kSecond;
  return std::chrono::nanoseconds(std::min(limit, kYear));
}

}  // namespace

class CallsInTurn::Call {
 public:
  explicit Call(std::function<bool()> of_caller) : body(std::move(of_caller)) {}
  std::function<bool()> body;
  State state = State::waiting;  ///< guarded by mutex_
};

Result<std::shared_ptr<CallsInTurn>> CallsInTurn::start() {
  std::shared_ptr<CallsInTurn> made(new CallsInTurn);
  made->ended_fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!made->ended_fd_.is_open()) {
    return Status::from_errno("eventfd()", errno);
  }
  RONDE_ASSIGN_OR_RETURN(std::thread thread, start_thread("starting a thread that waits", [made] { made->run(); }));
  thread.detach();
  return made;
}

std::shared_ptr<CallsInTurn::Call> CallsInTurn::add(std::function<bool()> call) {
  auto made = std::make_shared<Call>(std::move(call));
  const std::lock_guard lock(mutex_);
  waiting_.push_back(made);
  changed_.notify_all();
  return made;
}

CallsInTurn::State CallsInTurn::state_of(const Call& call) const {
  const std::lock_guard lock(mutex_);
  return call.state;
}

CallsInTurn::State CallsInTurn::wait_for(const Call& call, Nanoseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, span_of(limit), [&] { return call.state != State::waiting; });
  return call.state;
}

void CallsInTurn::drop_waiting() {
  const std::lock_guard lock(mutex_);
  waiting_.clear();
}

bool CallsInTurn::finish(Nanoseconds limit) {
  std::unique_lock lock(mutex_);
  is_last_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, span_of(limit), [&] { return has_ended_; });
}

void CallsInTurn::take_note() const {
  eventfd_t one = 0;
  ::eventfd_read(ended_fd_.get(), &one);
}

void CallsInTurn::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_last_ || !waiting_.empty(); });
    if (waiting_.empty()) {
      break;
    }
    const std::shared_ptr<Call> call = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const bool is_good = call->body();
    lock.lock();
    call->state = is_good ? State::succeeded : State::failed;
    changed_.notify_all();
    ::eventfd_write(ended_fd_.get(), 1);
  }
  has_ended_ = true;
  changed_.notify_all();
}

}  // namespace ronde::backend::oneccl
