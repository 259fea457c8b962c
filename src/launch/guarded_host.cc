#include "launch/guarded_host.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <utility>

#include "base/host_name.h"

namespace ronde::launch {

namespace {

constexpr Nanoseconds kSweepLimit = 10 * kSecond;

}  // namespace

GuardedHost::GuardedHost(Guardian guardian, std::vector<pid_t> children, std::string folder)
    : name_(host_name()),
      guardian_(std::move(guardian)),
      children_before_(std::move(children)),
      folder_(std::move(folder)) {}

void GuardedHost::watch(std::vector<pollfd>& entries) { entries.push_back({guardian_.channel.get(), POLLIN, 0}); }

std::vector<RankHostEvent> GuardedHost::hear(const std::vector<pollfd>& /*entries*/, Nanoseconds /*now*/) {
  std::vector<RankHostEvent> events;
  while (!is_lost_) {
    Report report;
    const ssize_t size = ::recv(guardian_.channel.get(), &report, sizeof report, MSG_DONTWAIT);
    if (size == sizeof report) {
      RankHostEvent event{report, {}, {}};
      if (report.kind == Report::Kind::ended) {
        event.note = store::noted_leaving(folder_, report.rank);
      }
      events.push_back(std::move(event));
      if (report.kind == Report::Kind::empty) {
        break;
      }
    } else if (size < 0 && errno == EINTR) {
      continue;
    } else {
      if (size >= 0 || errno != EAGAIN) {
        events.push_back(lose_guardian());
      }
      break;
    }
  }
  return events;
}

/// The ranks die with the guardian, by their PR_SET_PDEATHSIG; what they leave falls to this process.
RankHostEvent GuardedHost::lose_guardian() {
  is_lost_ = true;
  ::kill(guardian_.pid, SIGKILL);
  RankHostEvent event;
  event.report.number = sweep_descendants(children_before_, kSweepLimit);
  event.lost = "the job's guardian process was killed from outside; all ranks on " + name_ + " have been ended";
  return event;
}

void GuardedHost::command(const Command& order) {
  // A guardian that is gone shows as the end of the channel.
  (void)::send(guardian_.channel.get(), &order, sizeof order, MSG_NOSIGNAL);
}

void GuardedHost::finish() {
  guardian_.channel.reset();  // its sign to go
  if (!is_lost_) {
    while (::waitpid(guardian_.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace ronde::launch
