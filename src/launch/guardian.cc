#include "launch/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launch/guardian_channel.h"
#include "launch/process_tree.h"
#include "store/folder_owner.h"

namespace ronde::launch {

namespace {

/// What is left when the last rank has ended may end by itself for so long (Python's resource tracker removes what its
/// program leaked), then it is asked to, then it is killed. But once the launcher has sent a stop signal its graces
/// hold: the program may still be saving its work while the shell around it, the rank, is dead.
constexpr Nanoseconds kLeftoverPause = 200 * kMillisecond;
constexpr Nanoseconds kLeftoverGrace = 800 * kMillisecond;
/// Killing is repeated at this pace, since a process may have forked between the look at /proc and the signal.
constexpr Nanoseconds kKillPace = 5 * kMillisecond;
/// A process that a SIGKILL has not ended by then hangs in the kernel or belongs to another user.
constexpr Nanoseconds kKillLimit = 10 * kSecond;

/// The guardian's process; one thread, which never returns to the launcher's code.
class GuardianProcess {
 public:
  GuardianProcess(const GuardianPlan& plan, UniqueFd channel) : plan_(plan), channel_(std::move(channel)) {}

  [[noreturn]] void run() {
    prepare();
    start_ranks();
    detach();
    while (!(gone_ && is_over_)) {
      wait();
      collect();
      advance();
    }
    store::remove_private_folder(plan_.folder);
    ::_exit(0);
  }

 private:
  enum class Phase { running, leftovers, asked, killing };

  static constexpr std::uint64_t kChannelKey = ~std::uint64_t{0};
  static constexpr std::uint64_t kChildKey = kChannelKey - 1;

  void prepare() {
    ::setsid();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_NAME, "ronde-guardian");
    for (const int fd : plan_.close) {
      ::close(fd);
    }
    // Nothing but SIGKILL ends the guardian: who wants the job to stop tells the launcher.
    ::signal(SIGCHLD, SIG_DFL);
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    children_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    watch(channel_.get(), kChannelKey);
    watch(children_.get(), kChildKey);
  }

  void watch(int fd, std::uint64_t key) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void start_ranks() {
    for (const RankStart& start : plan_.ranks) {
      const StartedRank started = start_rank(plan_.command, start, plan_.open_files);
      if (started.error_number != 0) {
        tell({Report::Kind::not_started, start.rank, started.of_exec, started.error_number, clock_.now()});
        return;
      }
      // Descriptors of processes, since epoll gives them in the order in which the processes ended: SIGCHLD and
      // waitpid() lose it when several end while the machine is busy, and then the wrong rank would have failed first.
      UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, started.pid, 0)));
      if (!pidfd.is_open()) {
        tell({Report::Kind::not_started, start.rank, 0, errno, clock_.now()});
        return;  // its process is killed with all others
      }
      pids_.push_back(started.pid);
      pidfds_.push_back(std::move(pidfd));
      ++living_;
      watch(pidfds_.back().get(), pids_.size() - 1);
      tell({Report::Kind::started, start.rank, 0, started.pid, clock_.now()});
    }
  }

  /// From here the guardian keeps nothing open that a reader of the ranks' or the launcher's output could wait for.
  void detach() {
    for (const RankStart& start : plan_.ranks) {
      for (const UniqueFd* fd : {&start.input, &start.output, &start.error}) {
        ::close(fd->get());
      }
    }
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::dup2(null.get(), standard);
    }
  }

  void tell(const Report& report) {
    // The launcher reads all the time; if it has gone, nobody needs to know.
    while (::send(channel_.get(), &report, sizeof report, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
  }

  void wait() {
    std::vector<epoll_event> events(pidfds_.size() + 2);
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   poll_timeout(deadline_, clock_.now()));
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
      if (key == kChannelKey) {
        hear();
      } else if (key == kChildKey) {
        signalfd_siginfo info;
        while (::read(children_.get(), &info, sizeof info) > 0) {
        }
      } else {
        report_end(key);
      }
    }
  }

  void hear() {
    Command command;
    const ssize_t size = ::recv(channel_.get(), &command, sizeof command, MSG_DONTWAIT);
    if (size == sizeof command && command.signal == SIGKILL) {
      kill_all();
    } else if (size == sizeof command) {
      told_to_stop_ |= command.signal == SIGINT || command.signal == SIGTERM;
      send_signal(command);
    } else if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
      gone_ = true;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, channel_.get(), nullptr);
      kill_all();
    }
  }

  void send_signal(const Command& command) {
    for (std::size_t i = 0; i < pids_.size(); ++i) {
      if (pidfds_[i].is_open()) {
        ::kill(command.whom == Command::Whom::ranks ? pids_[i] : -pids_[i], command.signal);
      }
    }
    if (command.whom == Command::Whom::ranks) {
      return;
    }
    // What is left in the group of a rank that has ended (a shell that was only a wrapper), and for `all` the
    // processes that have left the groups. Not by group: a number without a leader could be another's by now.
    for (const Process& process : descendants(list_processes(), ::getpid())) {
      const bool of_rank = std::find(pids_.begin(), pids_.end(), process.group) != pids_.end();
      if (!is_living_rank(process.group) && (of_rank || command.whom == Command::Whom::all)) {
        ::kill(process.pid, command.signal);
      }
    }
  }

  void report_end(std::uint64_t index) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pids_[index]), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) {
      return;
    }
    pidfds_[index].reset();
    --living_;
    tell({Report::Kind::ended, plan_.ranks[index].rank, info.si_code != CLD_EXITED, info.si_status, clock_.now()});
  }

  /// Reaps adopted orphans; ranks wait for their own event, so that the order is kept.
  void collect() {
    while (true) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        has_children_ = errno != ECHILD;
        return;
      }
      has_children_ = true;
      if (info.si_pid == 0 || is_living_rank(info.si_pid)) {
        return;
      }
      ::waitpid(info.si_pid, nullptr, WNOHANG);
    }
  }

  bool is_living_rank(pid_t pid) const {
    const auto found = std::find(pids_.begin(), pids_.end(), pid);
    return found != pids_.end() && pidfds_[static_cast<std::size_t>(found - pids_.begin())].is_open();
  }

  void kill_all() {
    if (phase_ != Phase::killing) {
      phase_ = Phase::killing;
      give_up_ = clock_.now() + kKillLimit;
      deadline_ = clock_.now();
    }
  }

  /// As a subreaper without children the guardian has no descendants at all: then the job is over.
  void advance() {
    if (is_over_) {
      return;
    }
    const Nanoseconds now = clock_.now();
    if (!has_children_ || (phase_ == Phase::killing && now >= give_up_)) {
      is_over_ = true;
      deadline_ = kNever;
      const auto left = has_children_ ? descendants(list_processes(), ::getpid()).size() : 0;
      tell({Report::Kind::empty, -1, 0, static_cast<std::int32_t>(left), now});
      return;
    }
    if (phase_ == Phase::running && living_ == 0 && !told_to_stop_) {
      phase_ = Phase::leftovers;
      deadline_ = now + kLeftoverPause;
    } else if (phase_ == Phase::leftovers && now >= deadline_) {
      phase_ = Phase::asked;
      deadline_ = now + kLeftoverGrace;
      send_signal({Command::Whom::all, SIGTERM});
    } else if (phase_ == Phase::asked && now >= deadline_) {
      kill_all();
    }
    if (phase_ == Phase::killing && now >= deadline_) {
      send_signal({Command::Whom::all, SIGKILL});
      deadline_ = now + kKillPace;
    }
  }

  const GuardianPlan& plan_;
  UniqueFd channel_;
  UniqueFd children_;
  UniqueFd epoll_;
  RealClock clock_;
  std::vector<pid_t> pids_;       ///< in the order of the plan's ranks
  std::vector<UniqueFd> pidfds_;  ///< open as long as the rank lives
  int living_ = 0;
  bool has_children_ = true;
  bool told_to_stop_ = false;
  bool gone_ = false;     ///< the launcher has
  bool is_over_ = false;  ///< no process of the job is left
  Phase phase_ = Phase::running;
  Nanoseconds deadline_ = kNever;
  Nanoseconds give_up_ = kNever;
};

}  // namespace

Result<Guardian> start_guardian(const GuardianPlan& plan) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status::from_errno("socketpair", errno);
  }
  Guardian guardian{-1, UniqueFd(ends[0])};
  UniqueFd other(ends[1]);
  guardian.pid = ::fork();
  if (guardian.pid < 0) {
    return Status::from_errno("fork", errno);
  }
  if (guardian.pid == 0) {
    guardian.channel.reset();
    GuardianProcess(plan, std::move(other)).run();
  }
  return guardian;
}

int sweep_descendants(const std::vector<pid_t>& except, Nanoseconds limit) {
  const RealClock clock;
  const Nanoseconds give_up = later(clock.now(), limit);
  while (true) {
    const std::vector<Process> left = descendants(list_processes(), ::getpid(), except);
    if (left.empty() || clock.now() >= give_up) {
      return static_cast<int>(left.size());
    }
    for (const Process& process : left) {
      ::kill(process.pid, SIGKILL);
      if (process.parent == ::getpid()) {
        ::waitpid(process.pid, nullptr, WNOHANG);
      }
    }
    ::poll(nullptr, 0, static_cast<int>(kKillPace / kMillisecond));
  }
}

}  // namespace ronde::launch
