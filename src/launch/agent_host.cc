#include "launch/agent_host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/version.h"

namespace ronde::launch {

namespace {

constexpr std::size_t kKeptErrors = 4096;
constexpr Nanoseconds kLastWords = 2 * kSecond;

struct PipePair {
  UniqueFd reader;
  UniqueFd writer;

  static Result<PipePair> make() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return Status::from_errno("pipe", errno);
    }
    return PipePair{UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
};

/// The child: leads a session of its own, so that no Ctrl-C cuts the connection before the ranks have been asked to
/// end, and no password is asked for at the terminal.
[[noreturn]] void become_connection(const std::vector<std::string>& words, const std::array<int, 3>& standard,
                                    pid_t parent) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(127);
  }
  for (int fd = 0; fd < 3; ++fd) {
    ::dup2(standard[static_cast<std::size_t>(fd)], fd);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::dprintf(STDERR_FILENO, "%s: %s\n", arguments[0], std::strerror(errno));  // the launcher reads it
  ::_exit(127);
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  const std::size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

std::string whole_seconds(Nanoseconds span) { return std::to_string(span / kSecond) + " s"; }

}  // namespace

AgentHost::AgentHost(std::string name, const std::string& store_path, std::string program)
    : name_(std::move(name)),
      program_(std::move(program)),
      relay_(StoreRelay::of_launcher(store_path)),
      heartbeat_(clock_.now()) {}

Result<std::unique_ptr<AgentHost>> AgentHost::connect(std::string name, const std::vector<std::string>& words,
                                                      std::string trial, const std::string& store_path,
                                                      std::string program) {
  RONDE_ASSIGN_OR_RETURN(PipePair in, PipePair::make());
  RONDE_ASSIGN_OR_RETURN(PipePair out, PipePair::make());
  RONDE_ASSIGN_OR_RETURN(PipePair errors, PipePair::make());
  std::unique_ptr<AgentHost> host(new AgentHost(std::move(name), store_path, std::move(program)));
  host->trial_ = std::move(trial);
  const pid_t parent = ::getpid();
  host->pid_ = ::fork();
  if (host->pid_ < 0) {
    return Status::from_errno("fork", errno);
  }
  if (host->pid_ == 0) {
    become_connection(words, {in.reader.get(), out.writer.get(), errors.writer.get()}, parent);
  }
  host->frames_ = FramePipe(std::move(out.reader), std::move(in.writer), true);
  host->errors_ = std::move(errors.reader);
  ::fcntl(host->errors_.get(), F_SETFL, O_RDONLY | O_NONBLOCK);
  return host;
}

AgentHost::~AgentHost() { end_connection(); }

void AgentHost::fail(const std::string& reason) {
  state_ = State::failed;
  failure_ = reason;
}

void AgentHost::fail_for_silence(const std::string& what, Nanoseconds span) {
  read_errors();
  const std::string said = last_line(errors_text_);
  fail("host " + name_ + " has not " + what + " within " + whole_seconds(span) + " (--start-timeout)" +
       (said.empty() ? "" : "; the last that came from there: " + said));
}

Status AgentHost::plan(const AgentPlan& plan, const std::string& carried) {
  frames_.put(FrameKind::plan, plan.encode());
  state_ = State::planned;
  if (!carried.empty()) {
    carried_.emplace(carried);
    return carried_->send(frames_);
  }
  return {};
}

void AgentHost::begin(RankOutput& output) {
  output_ = &output;
  frames_.put(FrameKind::start, {});
  frames_.flush();
  state_ = State::begun;
}

void AgentHost::watch(std::vector<pollfd>& entries) {
  // Where nobody takes the ranks' output it is left where it is, as on one host.
  const bool for_reading = output_ == nullptr || output_->has_room();
  if (!for_reading) {
    heartbeat_.note_heard(clock_.now());
  }
  frames_.watch(entries, for_reading);
  relay_.watch(entries);
  if (errors_.is_open()) {
    entries.push_back({errors_.get(), POLLIN, 0});
  }
}

Nanoseconds AgentHost::next_deadline() const {
  const Nanoseconds beat = heartbeat_.next_beat();
  return state_ == State::begun ? std::min(beat, heartbeat_.lost_at()) : beat;
}

std::vector<RankHostEvent> AgentHost::hear(const std::vector<pollfd>& entries, Nanoseconds now) {
  std::vector<RankHostEvent> events;
  heartbeat_.look(now);
  frames_.move(entries);
  relay_.move(entries, frames_);
  read_errors();
  while (const std::optional<Frame> frame = frames_.take()) {
    heartbeat_.note_heard(now);
    take(*frame, now, events);
  }
  if (!is_over_ && state_ != State::failed) {
    if (frames_.has_ended()) {
      fail(why_ended());
    } else if (state_ == State::begun && heartbeat_.is_lost(now)) {
      fail("host " + name_ + " does not answer any more: nothing came from there for " + whole_seconds(kHostSilence));
    }
  }
  if (state_ == State::failed && !is_over_) {
    is_over_ = true;
    end_connection();
    events.push_back({{}, {}, failure_});
  } else if (heartbeat_.take_beat(now)) {
    frames_.put(FrameKind::beat, bytes_of(now));
  }
  frames_.flush();
  return events;
}

void AgentHost::take(const Frame& frame, Nanoseconds now, std::vector<RankHostEvent>& events) {
  const std::string_view bytes = frame.bytes;
  switch (frame.kind) {
    case FrameKind::hello: take_hello(frame.bytes); break;
    case FrameKind::ready: state_ = state_ == State::planned ? State::ready : state_; break;
    case FrameKind::refused:
      failure_code_ = record_of<std::int32_t>(bytes).value_or(kLauncherExit);
      fail("host " + name_ + ": " + std::string(bytes.substr(std::min(bytes.size(), sizeof(std::int32_t)))));
      break;
    case FrameKind::report:
      if (const std::optional<RankReport> told = record_of<RankReport>(bytes)) {
        take_report(*told, events);
      }
      break;
    case FrameKind::file:
      if (carried_) {
        (void)carried_->take(bytes);  // the caller sees what is missing
      }
      break;
    case FrameKind::output:
    case FrameKind::output_end:
      if (const std::optional<OutputHead> head = record_of<OutputHead>(bytes); head && output_ != nullptr) {
        if (frame.kind == FrameKind::output) {
          output_->feed(head->rank, head->stream, bytes.substr(sizeof *head), now);
        } else {
          output_->finish(head->rank, head->stream);
        }
      }
      break;
    case FrameKind::echo:
      if (const std::optional<Echo> echo = record_of<Echo>(bytes)) {
        clock_offset_.note_echo(echo->launcher, echo->agent, now);
      }
      break;
    default: relay_.take(frame, frames_);
  }
}

void AgentHost::take_hello(const std::string& text) {
  Result<AgentHello> hello = AgentHello::decode(text);
  if (!hello) {
    fail("host " + name_ + ": " + hello.status().message());
  } else if (hello->version != kVersion) {
    fail("host " + name_ + " has version " + hello->version + " of Ronde at " + program_ + ", this host " +
         std::string(kVersion) + ": install the same on both");
  } else {
    hello_ = std::move(*hello);
    state_ = State::greeted;
    heartbeat_.start(clock_.now());
  }
}

void AgentHost::take_report(const RankReport& told, std::vector<RankHostEvent>& events) {
  RankHostEvent event{told.report, {}, {}};
  event.report.moment = clock_offset_.here(told.report.moment);
  if (told.has_note != 0) {
    event.note = {clock_offset_.here(told.left), told.let_down != 0};
  }
  is_over_ |= told.report.kind == Report::Kind::empty;
  events.push_back(std::move(event));
}

void AgentHost::read_errors() {
  std::array<char, 4096> buffer;
  while (errors_.is_open()) {
    const ssize_t count = ::read(errors_.get(), buffer.data(), buffer.size());
    if (count < 0) {
      return;
    }
    if (count == 0) {
      errors_.reset();
      return;
    }
    errors_text_.append(buffer.data(), static_cast<std::size_t>(count));
    if (errors_text_.size() > kKeptErrors) {
      errors_text_.erase(0, errors_text_.size() - kKeptErrors);
    }
  }
}

/// The connecting process has closed its output, so it is about to end; it may have said why.
std::string AgentHost::why_ended() {
  const Nanoseconds deadline = later(clock_.now(), kLastWords);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0 && clock_.now() < deadline) {
    pollfd entry{errors_.get(), POLLIN, 0};
    ::poll(&entry, 1, 10);
    read_errors();
  }
  read_errors();
  if (ended == pid_) {
    pid_ = -1;
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  const std::string said = last_line(!errors_text_.empty() ? errors_text_ : frames_.noise());
  const std::string quote = said.empty() ? "" : ": " + said;
  if (!frames_.damage().empty()) {
    return "host " + name_ + " sent what makes no sense: " + frames_.damage();
  }
  if (state_ == State::begun) {
    return "host " + name_ + " is lost: the connection to it ended" + quote;
  }
  if (code_ == 255) {
    return "host " + name_ + " cannot be reached by ssh" + quote + " (to try: " + trial_ + ")";
  }
  if (code_ == 126 || code_ == 127) {
    return "host " + name_ + " cannot run " + program_ + quote +
           " (Ronde has to be installed there at the same path, or beside --remote-python)";
  }
  return "host " + name_ + " did not start Ronde, the connection ended with code " + std::to_string(code_) + quote +
         " (to try: " + trial_ + ")";
}

void AgentHost::command(const Command& order) {
  frames_.put(FrameKind::command, bytes_of(order));
  if (order.signal == SIGSTOP) {
    // The launcher stops behind this, so what it says has to be on its way.
    const Nanoseconds deadline = later(clock_.now(), kSecond);
    while (frames_.waiting_bytes() > 0 && clock_.now() < deadline) {
      std::vector<pollfd> entries;
      frames_.watch(entries, false);
      ::poll(entries.data(), entries.size(), 100);
      frames_.flush();
    }
  }
  frames_.flush();
}

void AgentHost::finish() { end_connection(); }

void AgentHost::end_connection() {
  frames_.close();
  if (pid_ > 0) {
    const Nanoseconds deadline = later(clock_.now(), kLastWords);
    pid_t ended = 0;
    // An agent's end is the end of its ssh; a host out of reach answers nothing any more.
    while (state_ != State::failed && (ended = ::waitpid(pid_, nullptr, WNOHANG)) == 0 && clock_.now() < deadline) {
      ::poll(nullptr, 0, 2);
    }
    if (ended != pid_) {
      ::kill(pid_, SIGKILL);
      while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    pid_ = -1;
  }
}

}  // namespace ronde::launch
