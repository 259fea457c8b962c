// How ranks ended, what the launcher's exit code is, and the sentence that says so. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ronde::launch {

/// Exit codes of the launcher that are its own and no rank's; 128 + the signal when it was told to stop.
inline constexpr int kUsageExit = 2;
inline constexpr int kLauncherExit = 125;     ///< the launcher itself failed
inline constexpr int kNotRunnableExit = 126;  ///< the command exists but cannot be started
inline constexpr int kNotFoundExit = 127;     ///< the command does not exist

struct JobEnd {
  int exit_code = 0;     ///< of the first rank that failed; 128 + the signal that stopped the job; see below
  std::string sentence;  ///< who failed first and how, or why the job could not run; empty if all went well
};

/// The end of one rank's process.
struct RankEnd {
  int rank = 0;
  bool by_signal = false;
  int number = 0;          ///< the exit code, or the signal
  Nanoseconds moment = 0;  ///< of the process's end
  Nanoseconds left = 0;    ///< when the rank left its job, before that; 0: not known
  bool let_down = false;   ///< a call of it had failed since another rank had gone

  bool failed() const { return by_signal || number != 0; }
  /// As a shell gives it.
  int exit_code() const { return by_signal ? 128 + number : number; }
};

/// "SIGKILL" for 9; "signal 77" for one without a name.
std::string signal_name(int number);

/// Which rank failed first. `ends` come in the order in which the processes ended; one of them at least is a failure.
/// The first that failed is taken, unless one of its calls had failed because of others and another rank, which failed
/// too, had left the job before. Reorders `ends`: first the ranks that had ended, or left, before the one that failed
/// first, then this one, then the others. Returns its index.
std::size_t put_first_failure_first(std::vector<RankEnd>& ends);

/// "rank 1 on node7 was killed by signal 9 (SIGKILL) after 12.3 s; ranks 0, 2 then ended with code 1", and at its end
/// "; rank 3 had left before" if it was let down. `ends` and `first` of put_first_failure_first().
std::string failure_sentence(const std::vector<RankEnd>& ends, std::size_t first, std::string_view host,
                             Nanoseconds started);

/// "mpirun ended with code 1 after 12.3 s": of a launcher, which says itself which rank has failed.
std::string launcher_sentence(std::string_view program, const RankEnd& end, Nanoseconds started);

/// "stopped by signal 2 (SIGINT) after 3.0 s; ranks 0, 1 then ended with code 1".
std::string stop_sentence(int signal, const std::vector<RankEnd>& ends, std::size_t ends_before_stop,
                          Nanoseconds started, Nanoseconds stopped);

/// Why a rank's program could not be started, and the exit code for it. `error_number` is that of execvp() or fork().
struct StartFailure {
  std::string sentence;
  int exit_code = kNotRunnableExit;
};
StartFailure start_failure(int rank, const std::string& command, bool of_exec, int error_number);

}  // namespace ronde::launch
