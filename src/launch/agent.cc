#include "launch/agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "base/core_set.h"
#include "base/cores.h"
#include "base/host_name.h"
#include "base/version.h"
#include "launch/agent_messages.h"
#include "launch/binding.h"
#include "launch/carried_folder.h"
#include "launch/environment.h"
#include "launch/frame_pipe.h"
#include "launch/guardian.h"
#include "launch/launcher_process.h"
#include "launch/program_path.h"
#include "launch/store_relay.h"
#include "store/leave_note.h"
#include "store/private_folder.h"
#include "store/store_server.h"

namespace ronde::launch {

namespace {

/// Beyond so much that the launcher has not taken yet, the ranks' pipes are left full.
constexpr std::size_t kRoomForOutput = 1 << 20;
/// A process outside the job may hold a rank's pipe open: it is not waited for.
constexpr Nanoseconds kForeignPipes = kSecond;
constexpr Nanoseconds kFarewell = 10 * kSecond;

AgentHello make_hello() {
  AgentHello hello{.version = std::string(kVersion),
                   .host = host_name(),
                   .caller = {},
                   .called = {},
                   .addresses = store::interface_addresses(),
                   .free_port = free_port()};
  if (const char* const connection = std::getenv("SSH_CONNECTION"); connection != nullptr) {
    std::string port;
    std::istringstream(connection) >> hello.caller >> port >> hello.called;
  }
  return hello;
}

/// A rank's standard output or error.
struct Stream {
  OutputHead head;
  UniqueFd reader;
};

class Agent {
 public:
  Agent(FramePipe frames, const ManyOpenFiles& open_files, std::vector<int> descriptors)
      : frames_(std::move(frames)), open_files_(open_files), descriptors_(std::move(descriptors)) {}

  int run() {
    frames_.put_raw(std::string(FramePipe::kGreeting));
    frames_.put(FrameKind::hello, make_hello().encode());
    heard_ = clock_.now();
    while (!is_done_) {
      wait();
    }
    return 0;
  }

 private:
  void wait() {
    std::vector<pollfd> entries;
    frames_.watch(entries);
    if (guardian_.channel.is_open()) {
      entries.push_back({guardian_.channel.get(), POLLIN, 0});
    }
    if (frames_.waiting_bytes() < kRoomForOutput) {
      for (const Stream& stream : streams_) {
        if (stream.reader.is_open()) {
          entries.push_back({stream.reader.get(), POLLIN, 0});
        }
      }
    }
    if (relay_) {
      relay_->watch(entries);
    }
    const Nanoseconds until = std::min({later(heard_, silence_limit_), last_pipes_, farewell_});
    if (::poll(entries.data(), entries.size(), poll_timeout(until, clock_.now())) < 0 && errno != EINTR) {
      is_done_ = true;
      return;
    }
    frames_.move(entries);
    hear_launcher();
    if (relay_) {
      relay_->move(entries, frames_);
    }
    take_output(entries);
    hear_guardian();
    tell_end();
    frames_.flush();
  }

  void hear_launcher() {
    const Nanoseconds now = clock_.now();
    while (const std::optional<Frame> frame = frames_.take()) {
      heard_ = now;
      take(*frame);
    }
    is_done_ |= frames_.has_ended() || now >= later(heard_, silence_limit_) || now >= farewell_;
  }

  void take(const Frame& frame) {
    switch (frame.kind) {
      case FrameKind::plan: take_plan(frame.bytes); break;
      case FrameKind::start: start(); break;
      case FrameKind::file:
        if (carried_) {
          if (const Status status = carried_->take(frame.bytes); !status) {
            refuse(status.message(), kLauncherExit);
          }
        }
        break;
      case FrameKind::command:
        if (const std::optional<Command> order = record_of<Command>(frame.bytes)) {
          // The launcher stops itself behind this, and says nothing until it goes on.
          silence_limit_ = order->signal == SIGSTOP ? kNever : kLauncherSilence;
          if (guardian_.channel.is_open()) {
            (void)::send(guardian_.channel.get(), &*order, sizeof *order, MSG_NOSIGNAL);
          }
        }
        break;
      case FrameKind::beat:
        if (const std::optional<Nanoseconds> moment = record_of<Nanoseconds>(frame.bytes)) {
          frames_.put(FrameKind::echo, bytes_of(Echo{*moment, clock_.now()}));
        }
        break;
      default:
        if (relay_) {
          relay_->take(frame, frames_);
        }
    }
  }

  void take_plan(const std::string& text) {
    if (const Status status = prepare(text); !status) {
      refuse(status.message(), kLauncherExit);
    } else if (const std::optional<StartFailure> failure = check_program(plan_.command[0], starts_[0].environment)) {
      refuse(failure->sentence, failure->exit_code);
    } else {
      frames_.put(FrameKind::ready, {});
    }
  }

  void refuse(const std::string& sentence, std::int32_t exit_code) {
    frames_.put(FrameKind::refused, bytes_of(exit_code), sentence);
    farewell_ = later(clock_.now(), kFarewell);
  }

  Status prepare(const std::string& text) {
    RONDE_ASSIGN_OR_RETURN(plan_, AgentPlan::decode(text));
    if (::chdir(plan_.folder.c_str()) != 0) {
      return Status::from_errno("there is no folder '" + plan_.folder + "' to work in (--chdir names another)", errno);
    }
    RONDE_ASSIGN_OR_RETURN(store::PrivateFolder folder, store::PrivateFolder::create());
    folder_.emplace(std::move(folder));
    const std::string socket_path = folder_->path() + "/store";
    std::vector<UniqueFd> listeners(1);
    RONDE_ASSIGN_OR_RETURN(listeners[0], store::listen_unix(socket_path));
    if (UniqueFd beside = store::listen_beside(socket_path); beside.is_open()) {
      listeners.push_back(std::move(beside));
    }
    for (const UniqueFd& listener : listeners) {
      descriptors_.push_back(listener.get());
    }
    relay_.emplace(StoreRelay::of_agent(std::move(listeners)));
    const JobFacts facts{
        .store = "unix:" + socket_path,
        .key = plan_.key,
        .host = host_name(),
        .master_port = plan_.master_port,
        .threads = threads_per_rank(affinity_cores(), cgroup_quota(), static_cast<int>(plan_.ranks.size())),
        .master_address = plan_.master_address,
        .address = plan_.address};
    // The launcher's variables over those that this host gives who logs in.
    std::vector<std::string> inherited = own_environment();
    inherited.insert(inherited.end(), plan_.environment.begin(), plan_.environment.end());
    if (plan_.carries) {
      RONDE_ASSIGN_OR_RETURN(store::PrivateFolder own, store::PrivateFolder::create());
      inherited.push_back(std::string("RONDE_CARRIED_FOLDER") + "=" + own.path());
      carried_.emplace(own.path());
      carried_folder_.emplace(std::move(own));
    }
    if (!plan_.path_first.empty()) {
      inherited.push_back("PATH=" + plan_.path_first + ":" + variable_of(inherited, "PATH"));
    }
    const auto local_size = static_cast<int>(plan_.ranks.size());
    const CoresByNode cores = cores_by_node(CoreSet::of_this_thread().cores());
    for (const PlannedRank& each : plan_.ranks) {
      RankStart start;
      start.rank = each.rank;
      start.cores = cores_of_rank(plan_.binding, cores, each.local_rank, local_size);
      start.environment = rank_environment(
          inherited, plan_.settings,
          {each.rank, plan_.size, each.local_rank, local_size, each.cross_rank, each.cross_size}, facts);
      start.input.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      RONDE_RETURN_IF_ERROR(add_stream(start.output, {each.rank, 0}));
      RONDE_RETURN_IF_ERROR(add_stream(start.error, {each.rank, 1}));
      starts_.push_back(std::move(start));
    }
    return starts_.empty() || plan_.command.empty() ? Status::error(Code::internal, "the plan is empty") : Status{};
  }

  Status add_stream(UniqueFd& writer, const OutputHead& head) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return Status::from_errno("pipe", errno);
    }
    ::fcntl(ends[0], F_SETFL, O_RDONLY | O_NONBLOCK);
    streams_.push_back({head, UniqueFd(ends[0])});
    writer.reset(ends[1]);
    return {};
  }

  void start() {
    if (starts_.empty()) {
      return;
    }
    GuardianPlan plan{.command = plan_.command,
                      .ranks = std::exchange(starts_, {}),
                      .open_files = open_files_.before(),
                      .folder = folder_->path(),
                      .close = descriptors_};
    for (const Stream& stream : streams_) {
      plan.close.push_back(stream.reader.get());
    }
    Result<Guardian> guardian = start_guardian(plan);
    if (!guardian) {
      refuse(guardian.status().message(), kLauncherExit);
      return;
    }
    guardian_ = std::move(*guardian);
  }

  void take_output(const std::vector<pollfd>& entries) {
    for (Stream& stream : streams_) {
      const bool is_ready = std::any_of(entries.begin(), entries.end(), [&](const pollfd& entry) {
        return entry.fd == stream.reader.get() && entry.revents != 0;
      });
      if (stream.reader.is_open() && is_ready) {
        read(stream);
      }
    }
  }

  /// One gulp, so that no rank holds up the others.
  void read(Stream& stream) {
    std::array<char, 65536> buffer;
    const ssize_t count = ::read(stream.reader.get(), buffer.data(), buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (count <= 0) {
      stream.reader.reset();
      frames_.put(FrameKind::output_end, bytes_of(stream.head));
      return;
    }
    frames_.put(FrameKind::output, bytes_of(stream.head), {buffer.data(), static_cast<std::size_t>(count)});
  }

  void hear_guardian() {
    while (guardian_.channel.is_open()) {
      Report report;
      const ssize_t size = ::recv(guardian_.channel.get(), &report, sizeof report, MSG_DONTWAIT);
      if (size == sizeof report) {
        take_report(report);
      } else if (size < 0 && errno == EINTR) {
        continue;
      } else {
        // A guardian that has been killed: the ranks die with it, what they leave is this process's.
        if ((size >= 0 || errno != EAGAIN) && !end_) {
          guardian_.channel.reset();
          const int left = sweep_descendants({}, kFarewell);
          refuse("the job's guardian process was killed from outside; " +
                     (left == 0 ? "all ranks there have been ended" : std::to_string(left) + " processes are left"),
                 kLauncherExit);
        }
        return;
      }
    }
  }

  void take_report(const Report& report) {
    RankReport told{report, 0, 0, 0};
    if (report.kind == Report::Kind::empty) {
      end_ = told;
      last_pipes_ = later(clock_.now(), kForeignPipes);
      return;
    }
    if (report.kind == Report::Kind::ended) {
      if (const std::optional<store::LeaveNote> note = store::noted_leaving(folder_->path(), report.rank)) {
        told.has_note = 1;
        told.let_down = note->let_down ? 1 : 0;
        told.left = note->moment;
      }
    }
    frames_.put(FrameKind::report, bytes_of(told));
  }

  /// The end of a host comes behind everything that its ranks have printed.
  void tell_end() {
    if (!end_ || last_pipes_ == kNever) {
      return;
    }
    const bool have_ended =
        std::none_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.reader.is_open(); });
    if (have_ended || clock_.now() >= last_pipes_) {
      if (carried_) {
        (void)carried_->send(frames_);  // the caller sees what is missing
      }
      frames_.put(FrameKind::report, bytes_of(*end_));
      last_pipes_ = kNever;
      farewell_ = later(clock_.now(), kFarewell);
    }
  }

  FramePipe frames_;
  const ManyOpenFiles& open_files_;
  std::vector<int> descriptors_;  ///< that a guardian must not keep open
  RealClock clock_;
  AgentPlan plan_;
  std::optional<store::PrivateFolder> folder_;
  std::optional<store::PrivateFolder> carried_folder_;
  std::optional<CarriedFolder> carried_;
  std::optional<StoreRelay> relay_;
  std::vector<RankStart> starts_;
  std::vector<Stream> streams_;
  Guardian guardian_;
  std::optional<RankReport> end_;
  Nanoseconds heard_ = 0;
  Nanoseconds silence_limit_ = kLauncherSilence;
  Nanoseconds last_pipes_ = kNever;
  Nanoseconds farewell_ = kNever;  ///< the launcher closes the connection before that
  bool is_done_ = false;
};

}  // namespace

int run_agent() {
  open_standard_descriptors();
  ::setsid();  // no Ctrl-C of a terminal reaches it
  ::prctl(PR_SET_NAME, "ronde-agent");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  const ManyOpenFiles open_files;
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!in.is_open() || !out.is_open() || !null.is_open()) {
    return 125;
  }
  // Whoever inherits standard output would keep the connection open.
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
  std::vector<int> descriptors = {in.get(), out.get()};
  return Agent(FramePipe(std::move(in), std::move(out), false), open_files, std::move(descriptors)).run();
}

}  // namespace ronde::launch
