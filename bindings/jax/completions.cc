#include "completions.h"

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ronde::jax {

namespace {

class Worker {
 public:
  Worker() {
    // Signals are for the program's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { run(); }).detach();
      has_thread_ = true;
    } catch (...) {
      has_thread_ = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  /// False, and `work` is as it was, where there is no thread. Throws std::bad_alloc, with `work` as it was.
  bool add(std::function<void()>& work) {
    if (!has_thread_) {
      return false;
    }
    {
      const std::lock_guard lock(mutex_);
      waiting_.emplace_back();
      waiting_.back().swap(work);
    }
    is_waiting_.notify_one();
    return true;
  }

 private:
  void run() {
    pthread_setname_np(pthread_self(), "ronde-jax");
    std::vector<std::function<void()>> now;
    while (true) {
      {
        std::unique_lock lock(mutex_);
        is_waiting_.wait(lock, [this] { return !waiting_.empty(); });
        now.swap(waiting_);
      }
      for (const std::function<void()>& work : now) {
        work();
      }
      now.clear();
    }
  }

  std::mutex mutex_;
  std::condition_variable is_waiting_;
  std::vector<std::function<void()>> waiting_;
  bool has_thread_ = false;
};

Worker& worker() {
  static auto* const only = new Worker;  // never destroyed: its thread works until the process's exit is over
  return *only;
}

}  // namespace

void tell(const Completion& completion) noexcept {
  XLA_FFI_Error* refused = nullptr;
  if (completion.error.empty()) {
    XLA_FFI_Future_SetAvailable_Args args{sizeof(args), nullptr, completion.future};
    refused = completion.api->future_set_available(&args);
  } else {
    XLA_FFI_Error_Create_Args made{sizeof(made), nullptr, completion.error.c_str(), completion.code};
    XLA_FFI_Future_SetError_Args args{sizeof(args), nullptr, completion.future, completion.api->error_create(&made)};
    refused = completion.api->future_set_error(&args);
  }
  if (refused != nullptr) {
    XLA_FFI_Error_Destroy_Args args{sizeof(args), nullptr, refused};
    completion.api->error_destroy(&args);
  }
}

void later(std::function<void()> work) noexcept {
  bool is_taken = false;
  try {
    is_taken = worker().add(work);
  } catch (...) {
    is_taken = false;
  }
  if (!is_taken) {
    work();
  }
}

}  // namespace ronde::jax
