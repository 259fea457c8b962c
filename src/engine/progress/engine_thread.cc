#include "engine/progress/engine_thread.h"

#include <pthread.h>

#include <exception>
#include <string>
#include <utility>

#include "base/poll_for.h"
#include "base/thread.h"

namespace ronde::engine {

EngineThread::EngineThread(EngineSet& engines, DriverRole& role, CallbackQueue& callbacks, ThreadAlarm& alarm,
                           PeerProcesses peers, const Clock& clock)
    : engines_(engines), role_(role), callbacks_(callbacks), alarm_(alarm), peers_(std::move(peers)), clock_(clock) {}

Result<std::unique_ptr<EngineThread>> EngineThread::start(EngineSet& engines, DriverRole& role,
                                                          CallbackQueue& callbacks, ThreadAlarm& alarm,
                                                          PeerProcesses peers, const Clock& clock) {
  std::unique_ptr<EngineThread> self(new EngineThread(engines, role, callbacks, alarm, std::move(peers), clock));
  RONDE_ASSIGN_OR_RETURN(self->thread_,
                         start_thread("starting the engine thread", [thread = self.get()] { thread->run(); }));
  return self;
}

void EngineThread::run() {
  pthread_setname_np(pthread_self(), "ronde-engine");
  const DriverRole::Condition callbacks_are_due = [this] { return !callbacks_.is_empty(); };
  while (!stop_.load()) {
    try {
      alarm_.begin_look();
      callbacks_.run_all();
      sleep(role_.drive_until_rest(callbacks_are_due));
    } catch (const std::exception& error) {
      // Memory has run out: the process is not ours to end.
      const auto lock = role_.lock();
      engines_.fail(Status::error(Code::internal, std::string("the engine thread failed: ") + error.what()));
    }
  }
  callbacks_.run_all();
}

void EngineThread::sleep(const DriverRole::Rest& rest) {
  // What is not open, or not minded, is left out by its negative number.
  pollfd fds[] = {{alarm_.bell(), POLLIN, 0},
                  {alarm_.timer(), POLLIN, 0},
                  {peers_.descriptor(), POLLIN, 0},
                  {rest.minds_bell ? role_.bell_fd() : -1, POLLIN, 0},
                  {rest.minds_bell ? role_.news_fd() : -1, POLLIN, 0}};
  if (poll_for(fds, rest.until == kNever ? kNever : rest.until - clock_.now()) <= 0) {
    return;
  }
  if (fds[0].revents != 0) {
    alarm_.silence_bell();
  }
  if (fds[1].revents != 0) {
    alarm_.silence_timer();
  }
  if (fds[2].revents != 0) {
    notice_ends();
  }
  if (fds[3].revents != 0) {
    role_.silence_bell();
  }
}

void EngineThread::notice_ends() {
  for (const int peer : peers_.ended()) {
    engines_.notice_end(peer);
    role_.ring_own_bell();  // a sleeping driver shall look at it
  }
}

void EngineThread::stop() {
  stop_.store(true);
  alarm_.ring_again();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace ronde::engine
