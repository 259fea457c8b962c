// Supervisor: the launcher's loop. It hears signals, the hosts of its ranks and the ranks' output, and does what the
// stop policy says.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/ending.h"
#include "launch/guardian_channel.h"
#include "launch/job_outcome.h"
#include "launch/rank_host.h"
#include "launch/rank_output.h"
#include "launch/signal_watch.h"
#include "launch/stop_policy.h"

namespace ronde::launch {

struct SupervisedJob {
  std::string program;              ///< for the sentence that it cannot be run
  int ranks = 1;                    ///< on all hosts
  Nanoseconds grace = 5 * kSecond;  ///< see StopPolicy
  bool starts_ranks = false;        ///< see LocalJob
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

  struct Host {
    std::unique_ptr<RankHost> ranks;
    bool is_over = false;  ///< no process of the job is left there
  };

  std::vector<Host> hosts_;
  RankOutput& output_;
  SignalWatch& signals_;
  RealClock clock_;
  StopPolicy policy_;
  JobOutcome outcome_;
  bool over_ = false;  ///< no process of the job is left
  Nanoseconds drain_until_ = kNever;
};

}  // namespace ronde::launch
