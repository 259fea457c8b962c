// The agent: on each host of a job of several hosts, a process that starts the ranks there and speaks for them to the
// launcher, over the standard input and output of the ssh connection that started it.
//
// It ends, and its guardian with it ends every process of the job on its host, when the connection ends, whichever side
// has cut it, and when the launcher has been silent for kLauncherSilence: a cable that has been pulled ends no
// connection.
#pragma once

#include "base/clock.h"

namespace ronde::launch {

/// Between two beats of the launcher.
inline constexpr Nanoseconds kBeat = kSecond;
/// How long an agent waits for one. Longer than the launcher waits for an echo: it may be stopped for a while.
inline constexpr Nanoseconds kLauncherSilence = 30 * kSecond;

/// Runs to the end of the job; the exit code. Requires: this process has one thread and no children.
int run_agent();

}  // namespace ronde::launch
