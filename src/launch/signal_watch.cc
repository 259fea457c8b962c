#include "launch/signal_watch.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace ronde::launch {

SignalWatch::SignalWatch(const std::vector<int>& signals) {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int number : signals) {
    struct sigaction present {};
    ::sigaction(number, nullptr, &present);
    const bool ignored = present.sa_handler == SIG_IGN;
    in_background_ |= ignored && number == SIGINT;
    if (!ignored || number == SIGINT) {  // a blocked signal is kept even where it would be ignored
      ::sigaddset(&watched, number);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &watched, &mask_before_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
  fd_.reset(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalWatch::~SignalWatch() {
  while (next() != 0) {
    // Signals that came too late to matter must not end the process now.
  }
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

int SignalWatch::next() {
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number != SIGINT || !in_background_ || info.ssi_code != SI_KERNEL) {
      return number;
    }
  }
  return 0;
}

}  // namespace ronde::launch
