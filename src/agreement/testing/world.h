// The world of the interleaving test: moves one thing at a time, by seed, disturbs, and checks the end.
#pragma once

#include <algorithm>

#include "agreement/testing/world_moves.h"

namespace ronde::agreement::testing_world {

/// Moves one thing at a time until nothing can move.
class World : public WorldMoves {
 public:
  using WorldMoves::WorldMoves;

  /// What went wrong, or nothing.
  std::string run(int longest = 30000) {
    for (int step = 0; step < longest && violation().empty(); ++step) {
      if (dice_.one_in(24)) {
        disturb();
      }
      collect();
      if (!moves_.empty()) {
        const Move move = choose();
        do_move(move);
        check_state(move.rank);
      } else if (all_finished()) {
        check_the_end();
        return violation();
      } else if (!scenario_.matching || scenario_.timers_may_help || killed_) {
        if (!use_a_timer()) {
          violated("P3: nothing can move, and no timer helps");
        }
      } else {
        violated("P3: nothing can move");
      }
    }
    violated("P3: it does not end");
    return violation();
  }

  /// How far its program was when this rank last sent a request.
  std::size_t last_request(std::size_t index) const { return ranks_[index]->last_request; }

  std::string where_all_are() const {
    std::string text;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& own = *ranks_[i];
      text += "rank " + std::to_string(i) + (own.alive ? "" : " (dead)") + ": mode " +
              std::to_string(static_cast<int>(own.member.mode())) + ", epoch " + std::to_string(own.member.epoch()) +
              ", at " + std::to_string(own.pc) + " of " + std::to_string(scenario_.programs[i].size());
      for (std::size_t n = 0; n < scenario_.names.size(); ++n) {
        text += ", " + scenario_.names[n].name + " " +
                std::to_string(static_cast<int>(own.member.lane(scenario_.names[n].name)));
      }
      text += "\n";
    }
    return text;
  }

 private:
  // ---- Moving

  void do_move(const Move& move) {
    Rank& own = rank(move.rank);
    const auto id = static_cast<std::uint32_t>(move.index);
    const Mode mode = own.member.mode();
    switch (move.kind) {
      case Kind::program: go_on(move.rank); return;
      case Kind::gate: {
        const CopiedSubmit copied = *std::exchange(own.copied, std::nullopt);
        classify_submit(move.rank, copied.name, Variant::usual);
        if (own.member.bucket(copied.event.bucket).members.empty()) {  // retired since: its names are not known there
          const NameSpec& spec = scenario_.names[copied.name];
          own.member.step(Submit{spec.name, spec.descriptor(copied.variant, move.rank), kNever}, own.sink);
          return;
        }
        own.member.step(copied.event, own.sink);
        return;
      }
      case Kind::late_publish: {
        const auto [late, flag] = own.late_publishes.front();
        own.late_publishes.pop_front();
        store_pub(move.rank, late, flag);
        return;
      }
      case Kind::word: {
        const Update update = std::move(own.incoming[move.index].front());
        own.incoming[move.index].pop_front();
        apply(own.view[move.index], update);
        return;
      }
      case Kind::log: read_log(own); return;
      case Kind::receive: receive(move.rank); return;
      case Kind::take_log: take_log(); return;
      case Kind::all_published:
        if (is_void(move.rank, id, own.member.next_flag(id))) {
          tell(move.rank, id);
          own.member.step(Voided{id}, own.sink);
          return;
        }
        count(Row::all_published, mode);
        tell(move.rank, id);
        note_launch(move.rank, {true, id, own.member.next_flag(id)});
        begin_slice(move.rank, id);
        return;
      case Kind::reduced:
        count(Row::reduced, mode);
        finish_slice(move.rank, id);
        return;
      case Kind::all_done:
        count(Row::all_done, mode);
        tell(move.rank, id);
        own.member.step(AllDone{id}, own.sink);
        return;
      case Kind::peer_frozen: see_frozen(own, move.index); return;
      case Kind::all_frozen: decide(move.rank); return;
      case Kind::execution: execute(move.rank, move.index); return;
      case Kind::death: lose(move.rank, move.index); return;
      case Kind::quiet_seen:
        count(Row::lost, mode);
        stop_lane(own);
        own.member.step(Lost{RankSet(*own.view[move.index].quiet)}, own.sink);
        return;
      case Kind::all_quiet:
        count(Row::all_quiet, mode);
        own.member.step(AllQuiet{Status::error(Code::peer_lost, "a rank died")}, own.sink);
        own.stopped = true;
        return;
    }
  }

  void begin_slice(std::size_t i, std::uint32_t id) {
    const Flag flag = rank(i).member.next_flag(id);
    if (rank(i).member.step(AllPublished{id}, rank(i).sink)) {
      note(i, "begins its slice of bucket " + std::to_string(id));
      touch_all(i, id, flag);
    }
  }

  void finish_slice(std::size_t i, std::uint32_t id) {
    const Flag flag = rank(i).member.next_flag(id);
    touch_all(i, id, flag);
    if (bucket(i, id).has_done_words) {
      memory(i, id).result[flag % 2] = flag;
      write(i, {Update::Kind::done, id, flag, {}, {}});
    }
    rank(i).member.step(Reduced{id}, rank(i).sink);
  }

  void see_frozen(Rank& own, std::size_t peer) {
    const std::uint32_t frozen = own.view[peer].frozen;
    own.noted[peer] = frozen;
    if (frozen == own.member.epoch()) {
      count(Row::peer_frozen_now, own.member.mode());
    } else if (frozen > own.member.epoch()) {
      count(Row::peer_frozen_later, own.member.mode());
    }
    own.member.step(PeerFrozen{frozen}, own.sink);
  }

  void decide(std::size_t i) {
    Rank& own = rank(i);
    count(Row::all_frozen, own.member.mode());
    const std::uint32_t epoch = own.member.epoch();
    std::vector<std::uint64_t> smallest(own.member.bucket_count(), kMaxInstance);
    for (std::uint32_t id = 0; id < smallest.size(); ++id) {
      for (std::size_t peer = 0; peer < size(); ++peer) {
        smallest[id] = std::min(smallest[id], instance_in(pub(i, peer, id), epoch));
      }
    }
    for (std::uint32_t id : own.member.in_force()) {
      const auto [known, is_new] = decisions_.emplace(std::pair(epoch, id), smallest[id]);
      if (known->second != smallest[id]) {
        violated("P5: the ranks decide differently");
      }
    }
    note(i, "decides");
    own.member.step(AllFrozen{smallest}, own.sink);
  }

  void execute(std::size_t i, std::size_t e) {
    Execution& execution = executions_[e];
    Execution::Part& part = execution.parts[i];
    if (part.stage == 0) {
      note_launch(i, {false, e});
    }
    if (++part.stage == 2) {
      for (const Execution::Part& other : execution.parts) {
        if (other.sequence != kNothing && part.sequence != kNothing && other.sequence != part.sequence) {
          violated("P1: '" + scenario_.names[execution.name].name + "' in negotiation is not the same submission");
        }
      }
    }
    if (part.stage == 3) {
      if (part.sequence != kNothing) {
        finish(i, execution.name, Code::ok);
      }
      rank(i).member.step(Executed{scenario_.names[execution.name].name}, rank(i).sink);
    }
  }

  void lose(std::size_t i, std::size_t dead) {
    Rank& own = rank(i);
    count(Row::lost, own.member.mode());
    stop_lane(own);
    RankSet lost(size());
    lost[dead] = true;
    own.member.step(Lost{lost}, own.sink);
  }
  static void stop_lane(Rank& own) { own.lane_stopped = true; }

  // ---- The coordinator

  void receive(std::size_t from) {
    const control::Message message = std::move(rank(from).requests.front());
    rank(from).requests.pop_front();
    const int member = static_cast<int>(from);
    coordinator_has_news_ = true;
    Status status;
    if (const auto* request = std::get_if<control::RequestMessage>(&message)) {
      status = coordinator_->on_request(member, *request, now_);
    } else if (const auto* end = std::get_if<control::EndMessage>(&message)) {
      status = coordinator_->on_end(member, *end);
    } else if (std::holds_alternative<control::JoinMessage>(message)) {
      status = coordinator_->on_join(member);
    } else if (const auto* prepared = std::get_if<control::PreparedMessage>(&message)) {
      status = coordinator_->on_prepared(member, *prepared);
    } else if (const auto* full = std::get_if<control::FullMessage>(&message)) {
      status = coordinator_->on_full(member, *full);
    } else if (const auto* frozen = std::get_if<control::FrozenMessage>(&message)) {
      coordinator_->on_frozen(*frozen);
    } else if (const auto* free = std::get_if<control::FreeMessage>(&message)) {
      status = coordinator_->on_free(member, free->bucket);
    } else if (const auto* leave = std::get_if<control::LeaveMessage>(&message)) {
      coordinator_->on_leave(member, leave->final);
    }
    if (rooms_.was_misused()) {
      violated("a layout was taken back twice");
    }
    if (!status) {
      violated("coordinator: " + status.message());
    }
  }

  void take_log() {
    coordinator_has_news_ = false;
    for (const control::Message& entry : coordinator_->take_log()) {
      for (std::size_t i = 0; i < size(); ++i) {
        if (rank(i).alive) {
          rank(i).log.push_back(entry);
        }
      }
    }
  }

  void read_log(Rank& own) {
    control::Message entry = std::move(own.log.front());
    own.log.pop_front();
    const Mode mode = own.member.mode();
    if (std::holds_alternative<control::ExecEntry>(entry)) {
      count(Row::log_exec, mode);
    } else if (std::holds_alternative<control::ErrorEntry>(entry)) {
      count(Row::log_error, mode);
    } else if (std::holds_alternative<control::PrepareEntry>(entry)) {
      count(Row::log_prepare, mode);
    } else if (std::holds_alternative<control::InstallEntry>(entry)) {
      count(Row::log_install, mode);
    } else if (std::holds_alternative<control::AddEntry>(entry)) {
      count(Row::log_add, mode);
    } else if (std::holds_alternative<control::JoinDoneEntry>(entry)) {
      count(Row::log_join_done, mode);
    } else if (std::holds_alternative<control::LaunchEntry>(entry)) {
      count(Row::log_launch, mode);
    } else if (std::holds_alternative<control::BreakEntry>(entry)) {
      count(Row::log_break, mode);
      note_decision(own);
    }
    own.member.step(LogRead{std::move(entry)}, own.sink);
  }

  /// In an ordered group: what was launched before this entry is decided, on every rank alike.
  void note_decision(const Rank& own) {
    for (std::uint32_t id : own.member.in_force()) {
      const std::uint64_t decided = own.member.instances(id) + (own.member.is_launched(id) ? 1 : 0);
      if (own.member.mode() != Mode::failing && own.member.mode() != Mode::failed &&
          decisions_.emplace(std::pair(own.member.epoch(), id), decided).first->second != decided) {
        violated("P5: the ranks decide differently");
      }
    }
  }

  // ---- Programs

  void go_on(std::size_t i) {
    Rank& own = rank(i);
    const Op op = scenario_.programs[i][own.pc++];
    switch (op.kind) {
      case Op::Kind::wait: return;
      case Op::Kind::submit: submit(i, op); return;
      case Op::Kind::join:
        count(Row::join_called, own.member.mode());
        own.join_waits = true;
        own.member.step(JoinCalled{}, own.sink);
        return;
      case Op::Kind::leave: own.member.step(LeaveCalled{}, own.sink); return;
    }
  }

  void submit(std::size_t i, const Op& op) {
    Rank& own = rank(i);
    const NameSpec& spec = scenario_.names[op.name];
    Submission& submission = own.submissions[op.name];
    submission.current = own.generation * kPerGeneration + submission.made++;
    if (!spec.planning_names.empty()) {
      submit_call(i, op, spec, submission);
      return;
    }
    Descriptor descriptor = spec.descriptor(op.variant, i);
    note(i, "submits '" + spec.name + "' number " + std::to_string(submission.current) +
                (op.variant == Variant::usual ? "" : ", differently"));
    const std::optional<Member::Where> where = own.member.where(spec.name);
    if (where && !dice_.one_in(4) &&
        fits(own.member.bucket(where->bucket).members[where->place], descriptor, static_cast<int>(i))) {
      const Flag flag = own.member.next_flag(where->bucket);
      SubmitPlace event{where->bucket, where->place, 0, kNever, descriptor.memory_place};
      if (!dice_.one_in(4)) {  // copied before the gate; else the member has it copied
        event.copied = flag;
        own.sink.copy_in(where->bucket, where->place, flag & kMaxInstance);
      }
      own.copied = CopiedSubmit{event, op.name, op.variant};
      return;
    }
    classify_submit(i, op.name, op.variant);
    own.member.step(Submit{spec.name, std::move(descriptor), kNever}, own.sink);
  }

  /// It is made once, so its own number in the program tells it from all others.
  void submit_call(std::size_t i, const Op& op, const NameSpec& spec, Submission& submission) {
    submission.current = static_cast<Sequence>(op.name);
    note(i, "calls '" + spec.name + "', planned as '" + spec.planning_names[i] + "'");
    count(Row::call_submitted, rank(i).member.mode());
    rank(i).member.step(Submit{spec.name, spec.descriptor(op.variant, i), kNever, spec.planning_names[i]},
                        rank(i).sink);
  }

  void classify_submit(std::size_t i, std::size_t name, Variant variant) {
    Rank& own = rank(i);
    const std::string& text = scenario_.names[name].name;
    const auto where = own.member.where(text);
    const Descriptor descriptor = scenario_.names[name].descriptor(variant, i);
    Row row = own.planned[name] ? (variant == Variant::usual ? Row::submit_fitting : Row::submit_other)
                                : Row::submit_unplanned;
    if (where) {
      const bool fitting =
          fits(own.member.bucket(where->bucket).members[where->place], descriptor, static_cast<int>(i));
      row = fitting ? Row::submit_fitting : Row::submit_other;
    } else if (own.member.mode() != Mode::negotiate) {
      row = Row::submit_unplanned;
    }
    count(own.member.owed(text) > 0 ? Row::submit_owed : row, own.member.mode());
  }

  // ---- What disturbs

  void disturb() {
    auto victim = static_cast<std::size_t>(dice_.roll(static_cast<int>(size())));
    int what = dice_.roll(4);
    if (const auto slow = static_cast<std::size_t>(scenario_.slow_rank); slow < size() && owes(slow)) {
      victim = slow;  // a break while it owes an error is rare else
      what = 0;
    }
    Rank& own = rank(victim);
    if (scenario_.slow_rank >= 0 && scenario_.deadlines > 0 && rank(0).alive && dice_.one_in(2)) {
      --scenario_.deadlines;
      let_time_pass();
    } else if (what < 2 && scenario_.breaks > 0 && own.alive && own.member.epoch() > 0) {
      --scenario_.breaks;
      count(Row::local_reason, own.member.mode());
      own.member.step(LocalReason{Reason::abort}, own.sink);
    } else if (what == 2 && scenario_.deadlines > 0 && rank(0).alive) {
      --scenario_.deadlines;
      let_time_pass();
    } else if (what == 3 && scenario_.kills > 0 && own.alive && size() > 1 && dice_.one_in(4)) {
      --scenario_.kills;
      kill(victim);
    }
  }

  void kill(std::size_t victim) {
    note(victim, "dies");
    killed_ = true;
    Rank& own = rank(victim);
    own.alive = false;
    own.log.clear();
    while (!own.requests.empty() && dice_.one_in(2)) {
      own.requests.pop_back();  // what it had not sent yet
    }
  }

  void let_time_pass() {
    note("time passes");
    now_ += 10 * kSecond;
    coordinator_->on_time(now_);
    coordinator_has_news_ = true;
  }

  /// Nothing can move: the engine's timers. False if none has anything to do.
  bool use_a_timer() {
    if (++timers_ > 100) {
      return false;
    }
    for (const bool half_full : {true, false}) {
      for (std::size_t i = 0; i < size(); ++i) {
        Rank& own = rank(i);
        if (!own.alive || own.member.mode() != Mode::replay) {
          continue;
        }
        for (std::uint32_t id : own.member.in_force()) {
          if (half_full ? own.member.is_half_full(id) : own.member.is_published(id)) {
            count(Row::local_reason, own.member.mode());
            own.member.step(LocalReason{half_full ? Reason::stall : Reason::late_peers, id}, own.sink);
            return true;
          }
        }
      }
    }
    if (rank(0).alive && coordinator_->is_waiting()) {
      let_time_pass();
      return true;
    }
    return false;
  }

  // ---- After every move

  void check_state(std::size_t i) {
    const Member& member = rank(i).member;
    if (member.label() > member.position()) {
      violated("a label is larger than the position in the log");
    }
    if (member.mode() != Mode::negotiate) {
      return;
    }
    for (const NameSpec& spec : scenario_.names) {
      const Lane lane = member.lane(spec.name);
      if (lane == Lane::placed || lane == Lane::held) {
        violated("'" + spec.name + "' is in a bucket, and none is in force");
      }
    }
  }

  // ---- The end

  bool all_finished() {
    for (std::size_t i = 0; i < size(); ++i) {
      const Rank& own = rank(i);
      const bool leaves = !scenario_.programs[i].empty() && scenario_.programs[i].back().kind == Op::Kind::leave;
      if (own.alive && !own.stopped &&
          (own.pc < scenario_.programs[i].size() || own.join_waits || (leaves && !own.member.all_left()))) {
        return false;
      }
    }
    return true;
  }

  void check_the_end() {
    for (std::size_t i = 0; i < size(); ++i) {
      Rank& own = rank(i);
      for (std::size_t name = 0; name < scenario_.names.size(); ++name) {
        const Submission& submission = own.submissions[name];
        if (own.alive && submission.current != kNothing && !own.stopped) {
          violated("P2: '" + scenario_.names[name].name + "' was never completed");
        }
        for (const auto& [sequence, code] : submission.results) {
          check_result(i, name, sequence, code);
        }
      }
    }
  }

  void check_result(std::size_t i, std::size_t name, Sequence sequence, Code code) {
    if (killed_) {
      return;  // survivors may differ after a death
    }
    const std::string what = "'" + scenario_.names[name].name + "' number " + std::to_string(sequence);
    if (scenario_.matching && code != Code::ok) {
      violated("P3: " + what + " of a matching program failed: " + std::string(code_name(code)));
    }
    for (std::size_t peer = 0; peer < size(); ++peer) {
      const auto& others = rank(peer).submissions[name].results;
      const auto found = others.find(sequence);
      if (found != others.end() && (found->second == Code::ok) != (code == Code::ok)) {
        violated("P3: " + what + " has different results on ranks " + std::to_string(i) + " and " +
                 std::to_string(peer));
      }
    }
  }

  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> decisions_;
  Nanoseconds now_ = 1;
  bool killed_ = false;
  int timers_ = 0;
};

}  // namespace ronde::agreement::testing_world
