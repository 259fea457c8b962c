// JobOutcome: what the ends of a job's ranks, and what else became of it, come to: the launcher's exit code and
// sentence. It is told all in the order in which the launcher hears of it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/ending.h"

namespace ronde::launch {

/// Of one job. One thread. Moments are the launcher's.
class JobOutcome {
 public:
  /// `program`: of the ranks. `ranks`: how many there are on all hosts. `hosts`: the names of these, one at least.
  /// `starts_ranks`: the only "rank" is a launcher, which sentences call by its program's name.
  JobOutcome(std::string program, int ranks, std::vector<std::string> hosts, bool starts_ranks = false);

  /// The job begins now.
  void note_begin(Nanoseconds now) { began_ = now; }
  /// A rank's program runs. `host`: an index of the hosts.
  void note_start(int rank, Nanoseconds moment, std::size_t host) { started_[rank] = {moment, host}; }
  /// A rank's program, or its process (`of_exec`: false), could not be started.
  void note_failed_start(int rank, bool of_exec, int error_number);
  /// A rank's process has ended. `is_stopping`: the launcher has been told to stop the job. True: this is the job's
  /// first failure, and nobody has told the launcher to stop.
  bool note_end(const RankEnd& end, bool is_stopping);
  /// The launcher is told to stop the job: what ends from now on may do so because of that. Without a call no rank
  /// counts as ended before the stop.
  void note_stop() { ends_before_stop_ = ends_.size(); }
  /// A host is lost; `why` is a sentence. Of several losses the first counts.
  void note_loss(const std::string& why);
  /// So many of the job's processes could not be killed.
  void note_unkillable(int processes) { unkillable_ += processes; }

  /// What the launcher ends with. `stopped_by`: the first signal that told the launcher to stop the job, at
  /// `stopped_at`; 0: none has.
  JobEnd verdict(int stopped_by, Nanoseconds stopped_at) const;

 private:
  struct Started {
    Nanoseconds moment = 0;
    std::size_t host = 0;
  };

  const std::string program_;
  const int ranks_;
  const std::vector<std::string> hosts_;
  const bool starts_ranks_;
  Nanoseconds began_ = 0;
  std::map<int, Started> started_;  ///< by rank
  StartFailure start_failure_;      ///< its sentence is empty if all ranks started
  std::vector<RankEnd> ends_;       ///< in the order in which they came
  bool has_failed_ = false;         ///< a rank has, before any stop
  std::size_t ends_before_stop_ = 0;
  std::string lost_;                 ///< why the first lost host is
  bool failed_before_loss_ = false;  ///< a rank had, and not for want of another's
  int unkillable_ = 0;
};

}  // namespace ronde::launch
