#include "launch/supervisor.h"
#include "base/host_name.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "store/leave_note.h"

namespace ronde::launch {

namespace {

/// A process outside the job may hold a rank's pipe open (a container that it started): we do not wait for it.
constexpr Nanoseconds kForeignPipeLimit = kSecond;
/// After a stop the rest of the output is offered to its reader for so long.
constexpr Nanoseconds kStoppedOutputLimit = kSecond;
constexpr Nanoseconds kSweepLimit = 10 * kSecond;

}  // namespace

Supervisor::Supervisor(const LocalJob& job, Guardian guardian, RankOutput& output, SignalWatch& signals,
                       std::vector<pid_t> children, std::string folder)
    : job_(job),
      guardian_(std::move(guardian)),
      output_(output),
      signals_(signals),
      children_before_(std::move(children)),
      folder_(std::move(folder)),
      policy_(job.grace) {}

JobEnd Supervisor::run() {
  first_start_ = clock_.now();
  while (!over_) {
    wait();
    obey_policy();
  }
  drain();
  guardian_.channel.reset();  // its sign to go
  if (!guardian_lost_) {
    while (::waitpid(guardian_.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return verdict();
}

void Supervisor::wait() {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}, {guardian_.channel.get(), POLLIN, 0}};
  output_.watch(entries);
  const Nanoseconds until = std::min(over_ ? drain_until_ : policy_.next_deadline(), output_.next_deadline());
  if (::poll(entries.data(), entries.size(), poll_timeout(until, clock_.now())) < 0) {
    return;
  }
  output_.take(entries, clock_.now());
  hear_signals();
  if (!over_) {
    hear_guardian();
  }
}

void Supervisor::hear_signals() {
  if (output_.has_lost_reader() && policy_.stopped_by() == 0) {
    // As with any program in a pipeline whose reader has gone; the ranks that write would get this signal themselves.
    ends_before_stop_ = ends_.size();
    policy_.stop_signal(SIGPIPE, clock_.now());
  }
  while (const int signal = signals_.next()) {
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      command(Command::Whom::ranks, signal);
      continue;
    }
    if (signal == SIGTSTP) {
      suspend();
      continue;
    }
    const bool first = policy_.stopped_by() == 0;
    policy_.stop_signal(signal, clock_.now());
    if (over_) {
      drain_until_ = 0;  // it is only the output that someone does not want to wait for
    } else if (first) {
      ends_before_stop_ = ends_.size();
      output_.announce("ronde: stopping all ranks on " + signal_name(signal) +
                       (signal == SIGINT ? "; Ctrl-C again kills them" : ""));
    }
  }
}

/// Ctrl-Z: the ranks are in no group of the terminal's, so they are stopped and continued with us.
void Supervisor::suspend() {
  if (::getsid(0) == ::getpid()) {
    return;  // nobody would continue us
  }
  command(Command::Whom::all, SIGSTOP);
  ::kill(::getpid(), SIGSTOP);
  command(Command::Whom::all, SIGCONT);
}

void Supervisor::hear_guardian() {
  while (!over_) {
    Report report;
    const ssize_t size = ::recv(guardian_.channel.get(), &report, sizeof report, MSG_DONTWAIT);
    if (size == sizeof report) {
      take_report(report);
    } else if (size < 0 && errno == EINTR) {
      continue;
    } else {
      if (size >= 0 || errno != EAGAIN) {
        lose_guardian();
      }
      return;
    }
  }
}

RankEnd Supervisor::end_of(const Report& report) const {
  RankEnd end{report.rank, report.by_signal != 0, report.number, report.moment};
  if (const std::optional<store::LeaveNote> left = store::noted_leaving(folder_, report.rank)) {
    end.left = left->moment;
    end.let_down = left->let_down;
  }
  return end;
}

void Supervisor::take_report(const Report& report) {
  switch (report.kind) {
    case Report::Kind::started: started_[report.rank] = report.moment; break;
    case Report::Kind::not_started:
      start_failure_ = start_failure(report.rank, job_.command[0], report.by_signal != 0, report.number);
      policy_.start_failure();
      break;
    case Report::Kind::ended:
      ends_.push_back(end_of(report));
      if (ends_.back().failed() && !has_failed_ && policy_.stopped_by() == 0) {
        has_failed_ = true;
        policy_.failure(clock_.now());
      }
      break;
    case Report::Kind::empty:
      over_ = true;
      unkillable_ = report.number;
      break;
  }
}

/// The ranks die with the guardian, by their PR_SET_PDEATHSIG; what they leave falls to this process.
void Supervisor::lose_guardian() {
  guardian_lost_ = true;
  over_ = true;
  ::kill(guardian_.pid, SIGKILL);
  unkillable_ = sweep_descendants(children_before_, kSweepLimit);
}

void Supervisor::obey_policy() {
  while (const int signal = policy_.due(clock_.now())) {
    command(signal == SIGINT ? Command::Whom::groups : Command::Whom::all, signal);
  }
}

void Supervisor::command(Command::Whom whom, int signal) {
  const Command order{whom, signal};
  // A guardian that is gone shows as the end of the channel.
  (void)::send(guardian_.channel.get(), &order, sizeof order, MSG_NOSIGNAL);
}

void Supervisor::drain() {
  drain_until_ = later(clock_.now(), kForeignPipeLimit);
  while (!output_.is_ended() && clock_.now() < drain_until_) {
    wait();
  }
  output_.end_all(clock_.now());
  drain_until_ = policy_.stopped_by() != 0 ? later(clock_.now(), kStoppedOutputLimit) : kNever;
  while (!output_.is_written() && clock_.now() < drain_until_) {
    wait();
  }
}

JobEnd Supervisor::verdict() const {
  JobEnd end;
  if (!start_failure_.sentence.empty()) {
    end = {start_failure_.exit_code, start_failure_.sentence};
  } else if (has_failed_) {
    std::vector<RankEnd> ends = ends_;
    const std::size_t first = put_first_failure_first(ends);
    const auto started = started_.find(ends[first].rank);
    end = {ends[first].exit_code(),
           failure_sentence(ends, first, host_name(), started == started_.end() ? first_start_ : started->second)};
  } else if (policy_.stopped_by() != 0 && ends_before_stop_ < static_cast<std::size_t>(job_.ranks)) {
    end = {128 + policy_.stopped_by(),
           stop_sentence(policy_.stopped_by(), ends_, ends_before_stop_, first_start_, policy_.stopped_at())};
  }
  if (guardian_lost_) {
    end = {kLauncherExit,
           "the job's guardian process was killed from outside; all ranks on " + host_name() + " have been ended"};
  }
  if (unkillable_ > 0) {
    end.exit_code = end.exit_code == 0 ? kLauncherExit : end.exit_code;
    end.sentence += (end.sentence.empty() ? "" : "; ") + std::to_string(unkillable_) + " processes could not be killed";
  }
  return end;
}

}  // namespace ronde::launch
