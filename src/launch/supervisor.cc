#include "launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace ronde::launch {

namespace {

/// A process outside the job may hold a rank's pipe open (a container that it started): we do not wait for it.
constexpr Nanoseconds kForeignPipeLimit = kSecond;
/// After a stop the rest of the output is offered to its reader for so long.
constexpr Nanoseconds kStoppedOutputLimit = kSecond;

}  // namespace

Supervisor::Supervisor(SupervisedJob job, std::vector<std::unique_ptr<RankHost>> hosts, RankOutput& output,
                       SignalWatch& signals)
    : job_(std::move(job)), output_(output), signals_(signals), policy_(job_.grace) {
  for (std::unique_ptr<RankHost>& host : hosts) {
    hosts_.push_back({std::move(host), false});
  }
}

JobEnd Supervisor::run() {
  first_start_ = clock_.now();
  while (!over_) {
    wait();
    obey_policy();
  }
  drain();
  for (const Host& host : hosts_) {
    host.ranks->finish();
  }
  return verdict();
}

void Supervisor::wait() {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
  Nanoseconds until = std::min(over_ ? drain_until_ : policy_.next_deadline(), output_.next_deadline());
  for (const Host& host : hosts_) {
    if (!host.is_over) {
      host.ranks->watch(entries);
      until = std::min(until, host.ranks->next_deadline());
    }
  }
  output_.watch(entries);
  if (::poll(entries.data(), entries.size(), poll_timeout(until, clock_.now())) < 0) {
    return;
  }
  output_.take(entries, clock_.now());
  hear_signals();
  hear_hosts(entries);
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

void Supervisor::hear_hosts(const std::vector<pollfd>& entries) {
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (!hosts_[host].is_over) {
      for (const RankHostEvent& event : hosts_[host].ranks->hear(entries, clock_.now())) {
        take_event(host, event);
      }
    }
  }
  over_ = std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.is_over; });
}

void Supervisor::take_event(std::size_t host, const RankHostEvent& event) {
  if (event.lost.empty()) {
    take_report(host, event);
    return;
  }
  hosts_[host].is_over = true;
  unkillable_ += event.report.number;
  if (lost_.empty()) {
    lost_ = event.lost;
    failed_before_loss_ = has_failed_ && std::any_of(ends_.begin(), ends_.end(),
                                                     [](const RankEnd& end) { return end.failed() && !end.let_down; });
  }
  if (policy_.stopped_by() == 0) {
    policy_.failure(clock_.now());
  }
}

void Supervisor::take_report(std::size_t host, const RankHostEvent& event) {
  const Report& report = event.report;
  switch (report.kind) {
    case Report::Kind::started: started_[report.rank] = {report.moment, host}; break;
    case Report::Kind::not_started:
      start_failure_ = start_failure(report.rank, job_.program, report.by_signal != 0, report.number);
      policy_.start_failure();
      break;
    case Report::Kind::ended: {
      RankEnd end{report.rank, report.by_signal != 0, report.number, report.moment};
      if (event.note) {
        end.left = event.note->moment;
        end.let_down = event.note->let_down;
      }
      ends_.push_back(end);
      if (end.failed() && !has_failed_ && policy_.stopped_by() == 0) {
        has_failed_ = true;
        policy_.failure(clock_.now());
      }
      break;
    }
    case Report::Kind::empty:
      hosts_[host].is_over = true;
      unkillable_ += report.number;
      break;
  }
}

void Supervisor::obey_policy() {
  while (const int signal = policy_.due(clock_.now())) {
    command(signal == SIGINT ? Command::Whom::groups : Command::Whom::all, signal);
  }
}

void Supervisor::command(Command::Whom whom, int signal) {
  for (const Host& host : hosts_) {
    if (!host.is_over) {
      host.ranks->command({whom, signal});
    }
  }
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
    const auto found = started_.find(ends[first].rank);
    const Started started = found == started_.end() ? Started{first_start_, 0} : found->second;
    end = {ends[first].exit_code(), failure_sentence(ends, first, hosts_[started.host].ranks->name(), started.moment)};
  } else if (policy_.stopped_by() != 0 && ends_before_stop_ < static_cast<std::size_t>(job_.ranks)) {
    end = {128 + policy_.stopped_by(),
           stop_sentence(policy_.stopped_by(), ends_, ends_before_stop_, first_start_, policy_.stopped_at())};
  }
  if (failed_before_loss_ && !lost_.empty()) {
    end.sentence += "; then " + lost_;
  } else if (!lost_.empty()) {
    end = {kLauncherExit, lost_};
  }
  if (unkillable_ > 0) {
    end.exit_code = end.exit_code == 0 ? kLauncherExit : end.exit_code;
    end.sentence += (end.sentence.empty() ? "" : "; ") + std::to_string(unkillable_) + " processes could not be killed";
  }
  return end;
}

}  // namespace ronde::launch
