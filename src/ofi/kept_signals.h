// KeptSignals: undoes what a library that is loaded or called does to how this process handles signals. libfabric's
// providers set handlers of their own (libfabric 1.17 for six signals, interrupts among them), which would take them
// from the program.
#pragma once

#include <array>
#include <csignal>

namespace ronde::ofi {

/// Handlers are, at this one's end, what they were at its beginning. Handlers that other threads set meanwhile are
/// lost.
class KeptSignals {
 public:
  KeptSignals();
  ~KeptSignals();
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  /// Those for which a library of this kind may want to clean up; the real-time signals are the C library's and users'.
  static constexpr int kSignals = 32;
  std::array<struct sigaction, kSignals> before_{};
};

}  // namespace ronde::ofi
