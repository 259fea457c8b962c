#include "engine/requests/callback_queue.h"

#include <cxxabi.h>

#include <exception>
#include <new>
#include <utility>

#include "base/log.h"

namespace ronde::engine {

namespace {

thread_local bool in_callback_of_this_thread = false;

}  // namespace

bool CallbackQueue::runs_in_this_thread() { return in_callback_of_this_thread; }

void CallbackQueue::push(TicketPtr ticket, Status status, std::shared_ptr<void> owner) {
  std::lock_guard lock(mutex_);
  due_.push_back({std::move(ticket), std::move(status), std::move(owner)});
}

bool CallbackQueue::is_empty() const {
  std::lock_guard lock(mutex_);
  return due_.empty();
}

void CallbackQueue::run_all() {
  std::vector<Due> due;
  {
    std::lock_guard lock(mutex_);
    due.swap(due_);
  }
  for (const Due& each : due) {
    run(each);
  }
}

void CallbackQueue::run(const Due& due) const {
  struct Mark {
    Mark() { in_callback_of_this_thread = true; }
    ~Mark() { in_callback_of_this_thread = false; }
  };
  try {
    const Mark mark;
    due.ticket->on_done()(due.ticket, due.status);
  } catch (const abi::__forced_unwind&) {
    throw;  // it has ended its thread, which nothing may stop
  } catch (const std::exception& error) {
    log_thrown(rank_, due.ticket->name(), error.what());
  } catch (...) {
    log_thrown(rank_, due.ticket->name(), "something that is no std::exception");
  }
}

void log_thrown(int rank, const std::string& name, const char* what) {
  try {
    log(LogLevel::error, rank,
        "the completion callback of '" + name + "' has thrown: " + what +
            ". It counts as done; a callback should catch what it calls throws");
  } catch (const std::bad_alloc&) {
    // Then it goes unsaid: the other callbacks do not.
  }
}

}  // namespace ronde::engine
