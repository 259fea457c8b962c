// Threads of the library's own. A thread inherits its starter's signal mask: with every signal blocked at its start no
// signal of the program is ever handled on it.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace ronde {

/// A thread that runs `body` with all signals blocked; the caller's mask is as before afterwards. SYSTEM_ERROR with
/// `what` ("starting the engine thread") if there can be none.
template <typename Body>
Result<std::thread> start_thread(const std::string& what, Body body) {
  struct AllBlocked {
    AllBlocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~AllBlocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const AllBlocked blocked;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return Status::from_errno(what, error.code().value());
  }
}

}  // namespace ronde
