// The launcher's loop: hears signals, the guardian and the ranks' output, and does what the stop policy says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/ending.h"
#include "launch/guardian.h"
#include "launch/guardian_channel.h"
#include "launch/local_job.h"
#include "launch/rank_output.h"
#include "launch/signal_watch.h"
#include "launch/stop_policy.h"

namespace ronde::launch {

class Supervisor {
 public:
  /// `children` are processes that this one had before the job. References are kept.
  /// `folder`: of the store, where the ranks note that they leave.
  Supervisor(const LocalJob& job, Guardian guardian, RankOutput& output, SignalWatch& signals,
             std::vector<pid_t> children, std::string folder);

  /// Returns when no process of the job is left and its output is written (or nobody takes it any more).
  JobEnd run();

 private:
  void wait();
  void hear_signals();
  void suspend();
  void hear_guardian();
  void take_report(const Report& report);
  RankEnd end_of(const Report& report) const;
  void lose_guardian();
  void obey_policy();
  void command(Command::Whom whom, int signal);
  void drain();
  JobEnd verdict() const;

  const LocalJob& job_;
  Guardian guardian_;
  RankOutput& output_;
  SignalWatch& signals_;
  std::vector<pid_t> children_before_;
  std::string folder_;
  RealClock clock_;
  StopPolicy policy_;

  bool over_ = false;  ///< no process of the job is left
  bool guardian_lost_ = false;
  int unkillable_ = 0;
  std::map<int, Nanoseconds> started_;  ///< by rank
  Nanoseconds first_start_ = 0;
  std::vector<RankEnd> ends_;  ///< in the order in which they came
  bool has_failed_ = false;    ///< a rank has, before any stop
  std::size_t ends_before_stop_ = 0;
  StartFailure start_failure_;  ///< its sentence is empty if all ranks started
  Nanoseconds drain_until_ = kNever;
};

}  // namespace ronde::launch
