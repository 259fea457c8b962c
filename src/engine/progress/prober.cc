#include "engine/progress/prober.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/futex.h"
#include "base/thread.h"
#include "collectives/tuning/derived_table.h"

namespace ronde::engine {

Prober::Prober(ProbeTask task, Reduced reduced, Propose propose)
    : task_(std::move(task)), hand_over_(task_.hand_over), reduced_(std::move(reduced)), propose_(std::move(propose)) {}

std::unique_ptr<Prober> Prober::start(ProbeTask task, Reduced reduced, Propose propose) {
  std::unique_ptr<Prober> prober(new Prober(std::move(task), std::move(reduced), std::move(propose)));
  Result<std::thread> thread = start_thread("starting the prober's thread", [self = prober.get()] { self->run(); });
  if (!thread) {
    return nullptr;
  }
  prober->thread_ = std::move(thread).value();
  pthread_setname_np(prober->thread_.native_handle(), "ronde-probe");
  return prober;
}

Prober::~Prober() {
  stop_.store(1);
  futex_wake_all(stop_);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Prober::run() {
  Nanoseconds pause = hand_over_.is_measured() ? task_.again : task_.first;
  Nanoseconds retry = task_.retry;
  std::uint64_t seen = 0;
  while (sleep(pause)) {
    const std::uint64_t reduced = reduced_();
    const bool is_due = !hand_over_.is_measured() || hand_over_.suspects() || reduced != seen;
    seen = reduced;
    pause = task_.again;
    try {
      if (is_due && !look()) {
        pause = std::min(retry, task_.again);
        retry = 2 * pause;
      } else {
        retry = task_.retry;
      }
    } catch (const std::exception&) {
      // Memory is short: the table in force is good enough.
    }
  }
}

/// False once the prober shall end.
bool Prober::sleep(Nanoseconds span) const {
  const RealClock clock;
  const Nanoseconds until = later(clock.now(), span);
  while (stop_.load() == 0) {
    const Nanoseconds left = time_left(clock, until);
    if (left == 0) {
      return true;
    }
    futex_wait(stop_, 0, left);
  }
  return false;
}

/// False if it should be done again soon.
bool Prober::look() {
  if (hand_over_.is_measured()) {
    switch (hand_over_.look(task_.measure_hand_over(stop_))) {
      case HandOverWatch::Verdict::unchanged: return true;
      case HandOverWatch::Verdict::unclear: return false;
      case HandOverWatch::Verdict::changed: break;
    }
  }
  const std::optional<collectives::Measurement> measured = task_.measure(stop_);
  if (!measured) {
    return false;
  }
  hand_over_.settle(measured->hand_over);
  const collectives::Table table = collectives::derive_table(*measured);
  if (task_.cache) {
    task_.cache->store({table, measured->hand_over});
  }
  if (table.of(task_.ranks) != task_.row) {
    task_.row = table.of(task_.ranks);
    propose_(task_.row);
  }
  return true;
}

}  // namespace ronde::engine
