// A history: which rank, program or wire moves next is drawn by lot, until every rank's program has ended and all have
// left. A rank is stepped when it has news or a timer is due, as a driver would (engine/progress/driver_role.h), so
// that news of which nobody is told are found out; once in a while it is stepped for nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/histories/testing/world_state.h"

namespace ronde::engine::histories {

class World : public WorldState {
 public:
  /// `spared`: how often a faulty link does well before.
  explicit World(History history, Fault fault = Fault::none, int spared = 0)
      : WorldState(std::move(history), fault, spared) {
    for (std::size_t from = 0; from < size(); ++from) {
      for (std::size_t to = 0; to < size(); ++to) {
        net_.wire(static_cast<int>(from), static_cast<int>(to)).is_slow = dice_.one_in(5);
      }
    }
  }

  /// What was promised and did not hold; empty if all is well.
  std::string run() {
    count(Seen::histories);
    for (int moves = 0; violation().empty(); ++moves) {
      if (moves > kMostMoves) {
        violated("no end after " + std::to_string(kMostMoves) + " moves");
      }
      if (dice_.one_in(kBetweenDisturbances)) {
        disturb();
      }
      if (!move()) {
        if (std::all_of(ranks_.begin(), ranks_.end(), [](const auto& each) { return !is_there(*each); })) {
          break;
        }
        let_timers_expire();
      }
      count(Seen::moves);
    }
    check_the_end();
    count_engines();
    return violation();
  }

  std::string where_all_are() {
    std::string text;
    for (std::size_t index = 0; index < size(); ++index) {
      const Rank& own = rank(index);
      text += "rank " + std::to_string(index) + ": life " + std::to_string(static_cast<int>(own.life)) +
              ", operation " + std::to_string(own.next) + " of " + std::to_string(scenario().programs[index].size()) +
              (own.is_stopped ? ", stopped" : "") + (own.join ? ", has joined" : "") + ", waits for";
      for (const Submission* const each : own.outstanding) {
        text += " " + text_of(*each);
      }
      const ReplayCounters& counters = own.engine->replay_counters();
      text += "; installs " + std::to_string(counters.installs) + ", breaks " + std::to_string(counters.breaks) +
              ", instances " + std::to_string(counters.instances) + "\n";
    }
    return text;
  }

 private:
  static constexpr int kMostMoves = 200'000;
  static constexpr int kBetweenDisturbances = 24;
  static constexpr int kMostIdleJumps = 3000;

  struct Move {
    enum class Kind : std::uint8_t { program, step, deliver } kind = Kind::step;
    std::uint8_t rank = 0;
    std::uint8_t to = 0;
  };

  // ---- Moving

  /// False if nothing can move.
  bool move() {
    collect_moves();
    if (moves_.empty()) {
      return false;
    }
    Move move = drawn();
    for (int i = 0; i < 5 && is_slow(move); ++i) {
      move = drawn();
    }
    switch (move.kind) {
      case Move::Kind::program: go_on(move.rank); break;
      case Move::Kind::step: step(move.rank); break;
      case Move::Kind::deliver: {
        const std::size_t under_way = net_.wire(move.rank, move.to).under_way.size();
        const std::size_t count = dice_.one_in(3) ? under_way : 1;
        note(move.to, [&] {
          return "is reached by rank " + std::to_string(move.rank) + ":" +
                 next_of(net_.wire(move.rank, move.to), count);
        });
        net_.deliver(move.rank, move.to, count);
        break;
      }
    }
    return true;
  }

  static std::string next_of(const Wire& wire, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < std::min(count, wire.under_way.size()); ++i) {
      text += (i == 0 ? " " : ", ") + message_text(wire.under_way[i].channel, wire.under_way[i].bytes);
    }
    return text.empty() ? " its end" : text;
  }
  Move drawn() { return moves_[static_cast<std::size_t>(dice_.roll(static_cast<int>(moves_.size())))]; }
  bool is_slow(const Move& move) {
    return move.kind == Move::Kind::deliver ? net_.wire(move.rank, move.to).is_slow
                                            : move.kind == Move::Kind::program && move.rank == scenario().slow_rank;
  }

  void collect_moves() {
    moves_.clear();
    for (std::size_t index = 0; index < size(); ++index) {
      Rank& own = rank(index);
      if (is_there(own)) {
        const auto number = static_cast<std::uint8_t>(index);
        if (program_can_go_on(index)) {
          moves_.push_back({Move::Kind::program, number});
        }
        if (own.has_news) {
          moves_.push_back({Move::Kind::step, number});
        }
      }
      for (std::size_t to = 0; to < size(); ++to) {
        if (to != index && net_.has_something_under_way(static_cast<int>(index), static_cast<int>(to))) {
          moves_.push_back({Move::Kind::deliver, static_cast<std::uint8_t>(index), static_cast<std::uint8_t>(to)});
        }
      }
    }
  }

  void step(std::size_t index) {
    Rank& own = rank(index);
    own.has_news = false;
    if (own.life == Life::exits) {
      if (net_.finish(static_cast<int>(index))) {
        own.life = Life::gone;
        note(index, [] { return std::string("has gone"); });
      }
      return;
    }
    const bool moved = own.engine->step();
    note(index, [&] { return std::string(moved ? "steps" : "steps in vain"); });
    own.has_news |= moved || own.engine->has_input();
    collect(index);
    if (own.life == Life::leaves && own.engine->leaving() == Leaving::over) {
      exit(index);
    }
  }

  // ---- Programs

  bool program_can_go_on(std::size_t index) {
    Rank& own = rank(index);
    if (own.life != Life::runs) {
      return false;
    }
    const std::vector<Op>& program = scenario().programs[index];
    if (own.join) {
      return false;
    }
    if (own.is_stopped) {
      return own.outstanding.empty();  // on to its end
    }
    if (own.next == program.size()) {
      return true;
    }
    const Op& op = program[own.next];
    const Submission* const last =
        op.kind == Op::Kind::submit || op.kind == Op::Kind::wait ? own.last[op.name] : nullptr;
    return last == nullptr || last->is_done || !own.waits;
  }

  void go_on(std::size_t index) {
    Rank& own = rank(index);
    const std::vector<Op>& program = scenario().programs[index];
    if (own.is_stopped || own.next == program.size()) {
      leave(index);
      return;
    }
    const Op& op = program[own.next];
    if (op.kind == Op::Kind::submit || op.kind == Op::Kind::wait) {
      Submission* const last = own.last[op.name];
      if (last != nullptr && !last->is_done) {
        own.waits = true;
        own.engine->want(*last->ticket);
        own.has_news |= own.engine->has_input();
        return;
      }
      own.waits = false;
      if (last != nullptr) {
        own.engine->free_name(*last->ticket);
      }
    }
    ++own.next;
    switch (op.kind) {
      case Op::Kind::wait: return;
      case Op::Kind::submit:
        if (op.variant == Variant::other_shape && history_.refuses_odd_call) {
          refuse_call(index, op.name);
        } else {
          submit(index, op.name, op.variant);
        }
        return;
      case Op::Kind::join: submit_join(index); return;
      case Op::Kind::leave: own.next = program.size(); return;
    }
  }

  void leave(std::size_t index) {
    Rank& own = rank(index);
    if (own.is_told_of_death) {
      check_refusal(index);
    }
    own.engine->begin_leave();
    own.has_news = true;
    own.life = Life::leaves;
    note(index, [] { return std::string("leaves"); });
    if (history_.leaves_at_once[index] && !history_.any_leaves) {
      count(Seen::ranks_that_left_at_once);
      while (own.engine->step()) {
      }
      exit(index);
    }
  }

  void exit(std::size_t index) {
    Rank& own = rank(index);
    own.engine->finish_leave();
    collect(index);
    own.life = Life::exits;
    own.has_news = true;
    net_.stop_reading(static_cast<int>(index));
    note(index, [] { return std::string("has left"); });
  }

  /// Who has been told of a death is told so of all that follows.
  void check_refusal(std::size_t index) {
    Request request;
    request.kind = OpKind::barrier;
    request.name = "later";
    const Status status = rank(index).engine->submit(std::make_shared<Ticket>(std::move(request)));
    if (status) {
      violated("rank " + std::to_string(index) + " has been told of a death, and may go on");
    }
  }

  // ---- What disturbs

  void disturb() {
    const auto victim = static_cast<std::size_t>(dice_.roll(static_cast<int>(size())));
    Rank& own = rank(victim);
    switch (dice_.roll(8)) {
      case 0:
        if (history_.scenario.breaks > 0 && is_there(own)) {
          --history_.scenario.breaks;
          jump(victim);
        }
        return;
      case 1:
        if (history_.scenario.deadlines > 0 && is_there(rank(0)) && !rank(0).backend->is_running()) {
          --history_.scenario.deadlines;
          count(Seen::deadline_jumps);
          note(0, [] { return std::string("its clock goes on to the next deadline"); });
          rank(0).clock.advance(history_.limit + kMillisecond);
          rank(0).has_news = true;
        }
        return;
      case 2:
        if (history_.scenario.kills > 0 && is_there(own) && dice_.one_in(3)) {
          --history_.scenario.kills;
          kill(victim);
        }
        return;
      case 3:
        if (history_.tables > 0 && rank(0).life == Life::runs) {
          --history_.tables;
          count(Seen::tables);
          rank(0).engine->propose_table(drawn_thresholds(dice_));
          rank(0).has_news = true;
        }
        return;
      case 4:
        if (history_.cancels > 0 && own.life == Life::runs && !own.outstanding.empty()) {
          --history_.cancels;
          cancel(victim);
        }
        return;
      case 5: own.has_news = true; return;
      default: {
        Wire& wire = net_.wire(static_cast<int>(victim), dice_.roll(static_cast<int>(size())));
        wire.is_slow = !wire.is_slow;
        return;
      }
    }
  }

  /// So that what is half full, or waits for other ranks, has waited too long.
  void jump(std::size_t index) {
    constexpr Nanoseconds kSpans[] = {3 * kMillisecond, 20 * kMillisecond, 1100 * kMillisecond, 70 * kSecond};
    const Nanoseconds span = kSpans[dice_.roll(history_.limit == kNever ? 4 : 2)];
    count(Seen::clock_jumps);
    note(index, [] { return std::string("its clock goes on"); });
    rank(index).clock.advance(span);
    rank(index).has_news = true;
  }

  void cancel(std::size_t index) {
    Rank& own = rank(index);
    Submission& chosen =
        *own.outstanding[static_cast<std::size_t>(dice_.roll(static_cast<int>(own.outstanding.size())))];
    count(Seen::cancels);
    any_cancelled_ = true;
    note(index, [&] { return "cancels " + text_of(chosen); });
    own.engine->cancel(chosen.ticket);
    own.has_news = true;
  }

  void kill(std::size_t index) {
    Rank& own = rank(index);
    const ReplayCounters& counters = own.engine->replay_counters();
    count(counters.installs > counters.breaks ? Seen::kills_while_replaying : Seen::kills_while_negotiating);
    count(any_killed_ ? Seen::second_kills : Seen::kills_of_the_coordinator, any_killed_ || index == 0 ? 1 : 0);
    note(index, [] { return std::string("dies"); });
    any_killed_ = true;
    any_died_leaving_ |= own.life != Life::runs;
    own.life = Life::dead;
    own.has_news = false;
    net_.kill(static_cast<int>(index), [this](std::size_t under_way) {
      return under_way - static_cast<std::size_t>(dice_.roll(static_cast<int>(under_way) + 1));
    });
  }

  // ---- Time

  /// Nothing can move: time passes until the first timer that is due.
  void let_timers_expire() {
    if (any_died_leaving_ && release_who_waits_for_quiet()) {
      return;
    }
    Nanoseconds span = kNever;
    for (const auto& each : ranks_) {
      if (is_there(*each) && each->life != Life::exits) {
        const Nanoseconds next = each->engine->next_timer();
        span = next == kNever ? span : std::min(span, std::max<Nanoseconds>(0, next - each->clock.now()));
      }
    }
    if (span == kNever || ++idle_jumps_ > kMostIdleJumps) {
      violated("nothing moves any more");
      return;
    }
    if (span > kQuietLimit / 2) {
      violated("ranks that have survived a death wait for each other");
      return;
    }
    if (scenario().matching && !scenario().timers_may_help && !history_.is_unnamed && !any_killed_) {
      violated("a program whose ranks match needs a timer to go on");
      return;
    }
    count(Seen::idle_jumps);
    for (std::size_t index = 0; index < size(); ++index) {
      Rank& own = rank(index);
      own.clock.advance(span);
      if (is_there(own) && own.life != Life::exits && own.engine->next_timer() <= own.clock.now()) {
        own.has_news = true;
        note(index, [] { return std::string("a timer of its own is due"); });
      }
    }
  }

  bool release_who_waits_for_quiet() {
    bool any = false;
    for (const auto& each : ranks_) {
      const Nanoseconds next = is_there(*each) && each->life != Life::exits ? each->engine->next_timer() : kNever;
      if (next != kNever && next - each->clock.now() > kQuietLimit / 2) {
        each->clock.advance(next - each->clock.now());
        any = each->has_news = true;
      }
    }
    return any;
  }

  void count_engines() {
    for (const auto& each : ranks_) {
      const ReplayCounters& replayed = each->engine->replay_counters();
      count(Seen::instances, replayed.instances);
      count(Seen::installs, replayed.installs);
      count(Seen::breaks, replayed.breaks);
      count(Seen::voided, replayed.voided);
      count(Seen::plans, each->engine->counters().plans);
      count(Seen::fused_tensors, each->engine->counters().fused_tensors);
    }
    for (std::size_t from = 0; from < size(); ++from) {
      for (std::size_t to = 0; to < size(); ++to) {
        count(Seen::full_links, net_.wire(static_cast<int>(from), static_cast<int>(to)).was_full ? 1 : 0);
      }
    }
  }

  std::vector<Move> moves_;
  int idle_jumps_ = 0;
  /// Its last word may have reached some: those do not take its end for a death, and others wait for them to be quiet
  /// about it, until that has its limit.
  bool any_died_leaving_ = false;
};

}  // namespace ronde::engine::histories
