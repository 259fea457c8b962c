#include "hand_over.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace ronde::jax {

HandOver::HandOver(const char* name) {
  // Signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this, name] { run(name); }).detach();
    has_thread_ = true;
  } catch (...) {
    has_thread_ = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool HandOver::take(std::function<void()>& work) noexcept {
  if (!has_thread_) {
    return false;
  }
  try {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back();
    waiting_.back().swap(work);
  } catch (...) {
    return false;
  }
  is_waiting_.notify_one();
  return true;
}

void HandOver::run(const char* name) {
  pthread_setname_np(pthread_self(), name);
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

}  // namespace ronde::jax
