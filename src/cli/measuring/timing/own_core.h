// Which cores a rank of a measurement may use, and how it gets one to itself.
#pragma once

namespace ronde::cli {

/// Of this process's affinity mask, at least 1: with more ranks than these a start line may not spin.
int usable_cores();
/// Keeps the calling thread on a core of its own if there is one for each rank, as the launchers of MPI do: on a busy
/// machine two ranks that wait for each other would else end up on one. Threads that exist already stay free.
void stay_on_own_core(int rank, int ranks);

}  // namespace ronde::cli
