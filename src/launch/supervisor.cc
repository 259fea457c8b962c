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

std::vector<std::string> names_of(const std::vector<std::unique_ptr<RankHost>>& hosts) {
  std::vector<std::string> names;
  for (const std::unique_ptr<RankHost>& host : hosts) {
    names.push_back(host->name());
  }
  return names;
}

}  // namespace

Supervisor::Supervisor(SupervisedJob job, std::vector<std::unique_ptr<RankHost>> hosts, RankOutput& output,
                       SignalWatch& signals)
    : output_(output),
      signals_(signals),
      policy_(job.grace),
      outcome_(std::move(job.program), job.ranks, names_of(hosts), job.starts_ranks) {
  for (std::unique_ptr<RankHost>& host : hosts) {
    hosts_.push_back({std::move(host), false});
  }
}

JobEnd Supervisor::run() {
  outcome_.note_begin(clock_.now());
  while (!over_) {
    wait();
    obey_policy();
  }
  drain();
  for (const Host& host : hosts_) {
    host.ranks->finish();
  }
  return outcome_.verdict(policy_.stopped_by(), policy_.stopped_at());
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
    outcome_.note_stop();
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
      outcome_.note_stop();
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
  outcome_.note_unkillable(event.report.number);
  outcome_.note_loss(event.lost);
  if (policy_.stopped_by() == 0) {
    policy_.failure(clock_.now());
  }
}

void Supervisor::take_report(std::size_t host, const RankHostEvent& event) {
  const Report& report = event.report;
  switch (report.kind) {
    case Report::Kind::started: outcome_.note_start(report.rank, report.moment, host); break;
    case Report::Kind::not_started:
      outcome_.note_failed_start(report.rank, report.by_signal != 0, report.number);
      policy_.start_failure();
      break;
    case Report::Kind::ended: {
      RankEnd end{report.rank, report.by_signal != 0, report.number, report.moment};
      if (event.note) {
        end.left = event.note->moment;
        end.let_down = event.note->let_down;
      }
      if (outcome_.note_end(end, policy_.stopped_by() != 0)) {
        policy_.failure(clock_.now());
      }
      break;
    }
    case Report::Kind::empty:
      hosts_[host].is_over = true;
      outcome_.note_unkillable(report.number);
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

}  // namespace ronde::launch
