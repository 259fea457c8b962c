// Prober: measures in the background what the table of thresholds follows from (collectives/tuning/probe.h), in a
// thread of its own in the host's first rank, and hands a row that differs from the one in force to the engine, which
// proposes it to all ranks.
//
// It measures once, some time after init so that short jobs never pay, unless an earlier job of this boot has left its
// table. After that it looks at the hand-over between two cores, at most once a minute and not when nothing was reduced
// since the last look (hand_over_watch.h); on virtual machines that changes for minutes at a time.
//
// The thread sleeps but for these milliseconds. It runs at the process's own priority: an ordinary user cannot raise
// a thread's priority again, one of a low priority never gets two busy cores at once, and whoever joins it would wait
// until the system gives it a turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "collectives/tuning/probe.h"
#include "collectives/tuning/table_cache.h"
#include "engine/progress/hand_over_watch.h"

namespace ronde::engine {

/// What there is to do; tests put other times and measurements in.
struct ProbeTask {
  using Stop = std::atomic<std::uint32_t>;

  int ranks = 2;
  Thresholds row;                                     ///< in force
  std::optional<double> hand_over = {};               ///< from which `row` follows, if it was measured
  std::optional<collectives::TableCache> cache = {};  ///< where to keep what is measured
  Nanoseconds first = 300 * kMillisecond;             ///< after the start, if nothing was measured before
  Nanoseconds again = 60 * kSecond;                   ///< between two looks
  Nanoseconds retry = kSecond;                        ///< when the cores were busy; twice as long each time
  std::function<std::optional<collectives::Measurement>(const Stop&)> measure = collectives::measure;
  std::function<std::optional<double>(const Stop&)> measure_hand_over = collectives::measure_hand_over;
};

class Prober {
 public:
  /// Both are called on the prober's thread: how much was reduced so far, and the row to be proposed.
  using Reduced = std::function<std::uint64_t()>;
  using Propose = std::function<void(const Thresholds&)>;

  /// Starts the thread, in which all signals are blocked. Null if there can be none: then nothing is measured.
  static std::unique_ptr<Prober> start(ProbeTask task, Reduced reduced, Propose propose);
  /// Ends the thread, as soon as it and its helper have had a turn.
  ~Prober();

 private:
  Prober(ProbeTask task, Reduced reduced, Propose propose);
  void run();
  bool sleep(Nanoseconds span) const;
  bool look();

  ProbeTask task_;
  HandOverWatch hand_over_;
  Reduced reduced_;
  Propose propose_;
  ProbeTask::Stop stop_{0};
  std::thread thread_;
};

}  // namespace ronde::engine
