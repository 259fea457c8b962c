#include "launch/agent_host.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/version.h"

namespace ronde::launch {

namespace {

constexpr Nanoseconds kLastWords = 2 * kSecond;

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  const std::size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

std::string whole_seconds(Nanoseconds span) { return std::to_string(span / kSecond) + " s"; }

}  // namespace

AgentHost::AgentHost(std::string name, std::unique_ptr<ConnectingProcess> process, std::string trial,
                     const std::string& store_path, std::string program)
    : name_(std::move(name)),
      program_(std::move(program)),
      trial_(std::move(trial)),
      process_(std::move(process)),
      frames_(process_->take_output(), process_->take_input(), true),
      relay_(StoreRelay::of_launcher(store_path)),
      heartbeat_(clock_.now()) {}

Result<std::unique_ptr<AgentHost>> AgentHost::connect(std::string name, const std::vector<std::string>& words,
                                                      std::string trial, const std::string& store_path,
                                                      std::string program) {
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<ConnectingProcess> process, ConnectingProcess::start(words));
  return std::unique_ptr<AgentHost>(
      new AgentHost(std::move(name), std::move(process), std::move(trial), store_path, std::move(program)));
}

AgentHost::~AgentHost() { end_connection(); }

void AgentHost::fail(const std::string& reason) {
  state_ = State::failed;
  failure_ = reason;
}

void AgentHost::fail_for_silence(const std::string& what, Nanoseconds span) {
  process_->read_errors();
  const std::string said = last_line(process_->errors());
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
  process_->watch(entries);
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
  process_->read_errors();
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

/// The connecting process has closed its output, so it is about to end; it may have said why.
std::string AgentHost::why_ended() {
  process_->await_end(kLastWords);
  const std::string& errors = process_->errors();
  const std::string said = last_line(!errors.empty() ? errors : frames_.noise());
  const std::string quote = said.empty() ? "" : ": " + said;
  if (!frames_.damage().empty()) {
    return "host " + name_ + " sent what makes no sense: " + frames_.damage();
  }
  if (state_ == State::begun) {
    return "host " + name_ + " is lost: the connection to it ended" + quote;
  }
  const int code = process_->code();
  if (code == 255) {
    return "host " + name_ + " cannot be reached by ssh" + quote + " (to try: " + trial_ + ")";
  }
  if (code == 126 || code == 127) {
    return "host " + name_ + " cannot run " + program_ + quote +
           " (Ronde has to be installed there at the same path, or beside --remote-python)";
  }
  return "host " + name_ + " did not start Ronde, the connection ended with code " + std::to_string(code) + quote +
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
  // An agent's end is the end of its ssh; a host out of reach answers nothing any more.
  process_->end(state_ == State::failed ? 0 : kLastWords);
}

}  // namespace ronde::launch
