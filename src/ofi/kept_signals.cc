#include "ofi/kept_signals.h"

#include <cstddef>

namespace ronde::ofi {

KeptSignals::KeptSignals() {
  for (int signal = 1; signal < kSignals; ++signal) {
    ::sigaction(signal, nullptr, &before_[static_cast<std::size_t>(signal)]);
  }
}

KeptSignals::~KeptSignals() {
  for (int signal = 1; signal < kSignals; ++signal) {
    const struct sigaction& before = before_[static_cast<std::size_t>(signal)];
    struct sigaction now {};
    // With or without SA_SIGINFO: both handlers lie in one place.
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != before.sa_handler) {
      ::sigaction(signal, &before, nullptr);
    }
  }
}

}  // namespace ronde::ofi
