// A thread that drives the engine's work while it waits is faster than to be told by the engine's own thread: 5 us for
// a small call against 40. So each set of requests has a thread that waits for it, as long as there are few. Beyond
// kMostThreads the sets are shared out, and a thread then looks every kSharedLook at what has been added.
#include "waiters.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace ronde::tf {

namespace {

constexpr std::size_t kMostThreads = 8;
/// Seconds.
constexpr double kLook = 50e-3;
constexpr double kSharedLook = 1e-3;

struct Wait {
  Flights flights;
  std::function<void()> then;
};

/// Whether all have ended. Drops those that have from the wait.
bool has_ended(Wait& wait) {
  std::erase_if(wait.flights, [](const std::shared_ptr<Flight>& flight) { return flight->is_done(); });
  return wait.flights.empty();
}

class Waiters {
 public:
  /// Throws std::bad_alloc, or std::system_error where there is no thread at all.
  void add(Wait&& wait) {
    const std::lock_guard lock(mutex_);
    Waiter* waiter = idlest();
    const bool is_busy = waiter == nullptr || waiter->load > 0;
    if (is_busy && threads_.size() < kMostThreads) {
      try {
        waiter = begin();
      } catch (...) {
        if (waiter == nullptr) {
          throw;
        }
      }
    }
    waiter->inbox.push_back(std::move(wait));
    ++waiter->load;
    waiter->has_more.notify_one();
  }

 private:
  struct Waiter {
    std::list<Wait> inbox;  ///< guarded by mutex_, as is all but the thread's own list
    std::size_t load = 0;   ///< in the inbox and in the thread's list
    std::condition_variable has_more;
  };

  Waiter* idlest() {
    const auto found = std::min_element(threads_.begin(), threads_.end(),
                                        [](const Waiter& a, const Waiter& b) { return a.load < b.load; });
    return found == threads_.end() ? nullptr : &*found;
  }

  Waiter* begin() {
    Waiter& waiter = threads_.emplace_back();
    // Signals are for the program's own threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this, &waiter] { run(waiter); }).detach();
    } catch (...) {
      threads_.pop_back();
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return &waiter;
  }

  void run(Waiter& waiter) {
    pthread_setname_np(pthread_self(), "ronde-tf");
    std::list<Wait> waits;
    while (true) {
      double look = kLook;
      {
        std::unique_lock lock(mutex_);
        waiter.has_more.wait(lock, [&] { return !waits.empty() || !waiter.inbox.empty(); });
        waits.splice(waits.end(), waiter.inbox);
        look = threads_.size() < kMostThreads ? kLook : kSharedLook;
      }
      std::list<Wait> ended;
      for (auto wait = waits.begin(); wait != waits.end();) {
        const auto next = std::next(wait);
        if (has_ended(*wait)) {
          ended.splice(ended.end(), waits, wait);
        }
        wait = next;
      }
      if (ended.empty()) {
        wait_for_one(waits, look);
        continue;
      }
      {
        const std::lock_guard lock(mutex_);
        waiter.load -= ended.size();
      }
      for (const Wait& wait : ended) {
        wait.then();
      }
    }
  }

  static void wait_for_one(const std::list<Wait>& waits, double limit_s) {
    ronde_ticket* tickets[64];
    std::size_t count = 0;
    for (const Wait& wait : waits) {
      tickets[count++] = wait.flights.front()->ticket();
      if (count == std::size(tickets)) {
        break;  // the others are looked at in the next turn
      }
    }
    std::size_t index = 0;
    ronde_wait_any(tickets, count, limit_s, &index);
  }

  std::mutex mutex_;
  std::list<Waiter> threads_;  ///< guarded by mutex_; none ever ends
};

}  // namespace

bool wait_elsewhere(const Flights& flights, std::function<void()> then) noexcept {
  try {
    static auto* const waiters = new Waiters;  // never destroyed: its threads work until the process's exit is over
    waiters->add({flights, std::move(then)});
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace ronde::tf
