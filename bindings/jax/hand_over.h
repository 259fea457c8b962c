// A thread that brings the ends of requests from Ronde's engine thread to XLA.
//
// XLA goes on with its program in the thread that says that a call has ended: with matrix products, or with Python. The
// engine thread must do neither, so a thread of our own says it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace ronde::jax {

/// One such thread. An object of it is never destroyed: its thread works until the process's exit is over.
class HandOver {
 public:
  /// Starts the thread, which blocks all signals. `name`: what the system calls it, of 15 bytes at most.
  explicit HandOver(const char* name);

  /// Has the thread run `work`, which may do anything but throw, after what was given before; returns at once. Any
  /// thread. False, and `work` is as it was, where there is no memory or no thread for it: the caller runs it here and
  /// now.
  bool take(std::function<void()>& work) noexcept;

 private:
  void run(const char* name);

  std::mutex mutex_;
  std::condition_variable is_waiting_;
  std::vector<std::function<void()>> waiting_;  ///< guarded by mutex_
  bool has_thread_ = false;
};

}  // namespace ronde::jax
