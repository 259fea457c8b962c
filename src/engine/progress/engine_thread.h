// EngineThread: the one thread of the library that serves the engines of a process. It drives while nobody waits
// (driver_role.h), runs completion callbacks, and watches the peers' processes; else it sleeps in poll().
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "engine/membership/peer_processes.h"
#include "engine/progress/driver_role.h"
#include "engine/requests/callback_queue.h"

namespace ronde::engine {

class EngineThread {
 public:
  /// All but `peers` must outlive the thread; `peers` goes by the ranks of the job. SYSTEM_ERROR if there can
  /// be no thread.
  static Result<std::unique_ptr<EngineThread>> start(EngineSet& engines, DriverRole& role, CallbackQueue& callbacks,
                                                     ThreadAlarm& alarm, PeerProcesses peers, const Clock& clock);
  ~EngineThread() { stop(); }

  /// Runs the callbacks that are due, then ends. In a callback (exit() was called there) it returns at once, and the
  /// thread is on its own: the process ends before it does.
  void stop();

 private:
  EngineThread(EngineSet& engines, DriverRole& role, CallbackQueue& callbacks, ThreadAlarm& alarm, PeerProcesses peers,
               const Clock& clock);
  void run();
  void sleep(const DriverRole::Rest& rest);
  void notice_ends();

  EngineSet& engines_;
  DriverRole& role_;
  CallbackQueue& callbacks_;
  ThreadAlarm& alarm_;
  PeerProcesses peers_;
  const Clock& clock_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace ronde::engine
