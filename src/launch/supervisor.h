// The launcher's loop: hears signals, the hosts of its ranks and the ranks' output, and does what the stop policy says.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/ending.h"
#include "launch/guardian_channel.h"
#include "launch/rank_host.h"
#include "launch/rank_output.h"
#include "launch/signal_watch.h"
#include "launch/stop_policy.h"

namespace ronde::launch {

struct SupervisedJob {
  std::string program;              ///< for the sentence that it cannot be run
  int ranks = 1;                    ///< on all hosts
  Nanoseconds grace = 5 * kSecond;  ///< see StopPolicy
};

class Supervisor {
 public:
  /// References are kept.
  Supervisor(SupervisedJob job, std::vector<std::unique_ptr<RankHost>> hosts, RankOutput& output, SignalWatch& signals);

  /// Returns when no process of the job is left and its output is written (or nobody takes it any more).
  JobEnd run();

 private:
  void wait();
  void hear_signals();
  void suspend();
  void hear_hosts(const std::vector<pollfd>& entries);
  void take_event(std::size_t host, const RankHostEvent& event);
  void take_report(std::size_t host, const RankHostEvent& event);
  void obey_policy();
  void command(Command::Whom whom, int signal);
  void drain();
  JobEnd verdict() const;

  struct Host {
    std::unique_ptr<RankHost> ranks;
    bool is_over = false;  ///< no process of the job is left there
  };
  struct Started {
    Nanoseconds moment = 0;
    std::size_t host = 0;
  };

  SupervisedJob job_;
  std::vector<Host> hosts_;
  RankOutput& output_;
  SignalWatch& signals_;
  RealClock clock_;
  StopPolicy policy_;

  bool over_ = false;                ///< no process of the job is left
  std::string lost_;                 ///< why a host is; of the first
  bool failed_before_loss_ = false;  ///< a rank had, and not for want of another's
  int unkillable_ = 0;
  std::map<int, Started> started_;  ///< by rank
  Nanoseconds first_start_ = 0;
  std::vector<RankEnd> ends_;  ///< in the order in which they came
  bool has_failed_ = false;    ///< a rank has, before any stop
  std::size_t ends_before_stop_ = 0;
  StartFailure start_failure_;  ///< its sentence is empty if all ranks started
  Nanoseconds drain_until_ = kNever;
};

}  // namespace ronde::launch
