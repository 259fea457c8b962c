// RankTest: a GoogleTest program whose ranks are processes. Run without more it is the parent: it makes a key, a store
// and a folder, starts itself once per rank (--ranks=N), and waits under a watchdog. Every rank runs every test, and
// all meet before and after each one, by way of the parent, not by the engine under test.
//
// A test program is ordinary: TEST(...) cases that use the C or C++ interface; add_rank_test() in CMake registers it.
#pragma once

#include <string>

namespace ronde::test {

int rank();
int size();
/// Whether all ranks have memory in common, as tests that are run over TCP or as several hosts too (RONDE_TRANSPORT)
/// have not.
bool shares_memory();

/// The other ranks that live meet here. Fails the process if the parent has gone.
void meet();

/// From now on the parent takes this end of this rank for right: an exit code, or 128 + signal.
void expect_exit(int code);

/// A folder of this run's own, the same for all ranks; removed with all in it by the parent.
std::string folder();

/// Waits until `condition` holds; false once `seconds` have passed. For conditions outside of Ronde.
template <typename Condition>
bool eventually(const Condition& condition, double seconds);

/// Sleeps for a moment between two looks of eventually().
void pause_between_looks();
double now_seconds();

template <typename Condition>
bool eventually(const Condition& condition, double seconds) {
  const double limit = now_seconds() + seconds;
  while (!condition()) {
    if (now_seconds() > limit) {
      return false;
    }
    pause_between_looks();
  }
  return true;
}

}  // namespace ronde::test
