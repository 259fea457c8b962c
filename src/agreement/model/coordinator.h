// The coordinator in the model of unnamed calls: what it holds, answers, and puts in force.
#pragma once

#include "actions.h"

namespace ronde::agreement::calls_model {

class CoordinatorHalf : public Half {
 public:
  using Half::Half;

  // ---- Actions. False: not possible now, and nothing has changed.

  bool receive(int from) {
    Byte& count = state_.messages[from];
    if (count == 0) {
      return false;
    }
    auto& queue = state_.up[from];
    const Message message = queue.front();
    std::move(queue.begin() + 1, queue.end(), queue.begin());
    queue.back() = {};
    --count;
    if (message.kind == Message::Kind::end) {
      state_.ended = static_cast<Byte>(state_.ended | 1 << from);
      if (state_.ended == all()) {  // nobody looks at these words again: flags say their epoch
        state_.words = {};
        state_.judged = {};
        state_.was_void = {};
      }
    } else if (message.kind == Message::Kind::refused) {
      hear_refusal(from, message.number);
    } else {
      hear_request(from, message);
    }
    return true;
  }

  /// The time of a call is up that not all have requested.
  bool time_out(int number) {
    if (!study_.scenario.has_limits || makers(number) == 0) {
      return false;
    }
    append_error(number, 0);
    return true;
  }

  bool install() {
    const bool is_over = state_.epoch == 0 || state_.ended == all();
    if (state_.installs >= study_.scenario.epochs || !is_over || !are_in_phase(study_.installed())) {
      return false;
    }
    ++state_.epoch;
    ++state_.installs;
    state_.ended = 0;
    state_.in_force = static_cast<Byte>(study_.installed());
    put_in_force(study_.installed());
    append({Entry::Kind::install, state_.epoch, static_cast<Byte>(study_.installed()), 0});
    return true;
  }

  bool add() {
    const int added = study_.scenario.added & ~state_.in_force;
    if (added == 0 || state_.epoch == 0 || state_.ended != 0 || !are_in_phase(added)) {
      return false;
    }
    state_.in_force = static_cast<Byte>(state_.in_force | added);
    put_in_force(added);
    append({Entry::Kind::add, state_.epoch, static_cast<Byte>(added), 0});
    return true;
  }

 private:
  // ---- The log

  /// What all have read goes.
  void append(const Entry& entry) {
    Byte read = state_.entries;
    for (int each = 0; each < study_.ranks; ++each) {
      read = std::min(read, rank(each).position);
    }
    if (read > 0) {
      std::move(state_.log.begin() + read, state_.log.end(), state_.log.begin());
      std::fill(state_.log.end() - read, state_.log.end(), Entry{});
      state_.entries = static_cast<Byte>(state_.entries - read);
      for (int each = 0; each < study_.ranks; ++each) {
        rank(each).position = static_cast<Byte>(rank(each).position - read);
      }
    }
    if (state_.entries == kLogKept) {
      return bad("bound of the model: entries");
    }
    state_.log[state_.entries++] = entry;
  }

  void append_error(int number, int unconcerned) {
    count_answer(number);
    state_.held[number] = {};
    state_.moved[number] = ++state_.moves;
    append({Entry::Kind::error, static_cast<Byte>(number), static_cast<Byte>(unconcerned), 0});
  }

  // ---- What is held

  const Op& held_op(int number, int from) const { return op_of(from, state_.held[number][from] - 1); }

  int all() const { return (1 << study_.ranks) - 1; }

  int makers(int number) const {
    int mask = 0;
    for (int each = 0; each < study_.ranks; ++each) {
      mask |= state_.held[number][each] != 0 ? 1 << each : 0;
    }
    return mask;
  }

  bool is_late(const Message& message, const Op& op) const {
    const bool by_hint =
        op.hint != kNoHint && message.label < state_.hint_moved[op.hint] && !broken(Fault::label_of_hint_ignored);
    return message.label < state_.moved[message.number] || by_hint;
  }

  void hear_request(int from, const Message& message) {
    const Op& op = op_of(from, message.op);
    if (is_late(message, op)) {
      return;  // its rank has the entry before it, and moves or fails the call itself
    }
    const bool is_barrier = op.kind == Op::Kind::barrier;
    const bool by_order = broken(Fault::requests_without_number) && !is_barrier;
    const int number = by_order ? rank(from).arrivals++ : message.number;
    if (state_.held[number][from] != 0) {
      return bad(text("one call is requested twice by rank", from));
    }
    state_.held[number][from] = static_cast<Byte>(message.op + 1);
    if (is_barrier) {
      state_.made[from][number - kFirstBarrier] = static_cast<Byte>(message.count + 1);
      for (int call = 0; call < kFirstBarrier; ++call) {
        if (makers(call) != 0) {
          fail_beyond_barrier(call);
        }
      }
    }
    if (makers(number) == all()) {
      answer(number);
    } else if (!is_barrier) {
      fail_beyond_barrier(number);
    }
  }

  void answer(int number) {
    const Op& first = held_op(number, 0);
    for (int each = 1; each < study_.ranks; ++each) {
      const Op& other = held_op(number, each);
      if (other.descriptor != first.descriptor && !broken(Fault::descriptors_not_compared)) {
        return append_error(number, 0);
      }
      if (other.meets != first.meets) {
        bad(text("the coordinator pairs different calls, number", number));
      }
    }
    count_answer(number);
    state_.held[number] = {};
    append({Entry::Kind::exec, static_cast<Byte>(number), 0, first.meets});
  }

  void hear_refusal(int from, int number) {
    if (state_.last_refused == number + 1) {
      return;
    }
    state_.last_refused = static_cast<Byte>(number + 1);
    append_error(number, 1 << from);
  }

  /// A call that a rank does not make, since it has called the barrier that ends this count.
  void fail_beyond_barrier(int number) {
    int without = 0;
    for (int each = 0; each < study_.ranks; ++each) {
      const int made = state_.made[each][number / kCallsInCount];
      without |= made != 0 && number % kCallsInCount >= made - 1 ? 1 << each : 0;
    }
    if (without != 0) {
      append_error(number, broken(Fault::beyond_barrier_told_to_holders) ? all() & ~makers(number) : without);
    }
  }

  // ---- Planning

  /// Answers are counted only where buckets must begin in phase, since no timer helps.
  void count_answer(int number) {
    if (study_.scenario.has_timers) {
      return;
    }
    int hints = 0;
    for (int each = 0; each < study_.ranks; ++each) {
      if (state_.held[number][each] != 0 && held_op(number, each).hint != kNoHint) {
        hints |= 1 << held_op(number, each).hint;
      }
    }
    for (int hint = 0; hint < kHints; ++hint) {
      state_.answers[hint] = static_cast<Byte>(state_.answers[hint] + (hints >> hint & 1));
    }
    for (int b = 0; b < kBuckets; ++b) {
      take_off_rounds(b);
    }
  }

  /// How many answers more than whole bursts, and than the other hints of the bucket, this hint has had.
  void take_off_rounds(int b) {
    int rounds = 15;
    for (int place = 0; place < study_.places[b]; ++place) {
      rounds = std::min(rounds, state_.answers[study_.hint_of[b][place]] / burst(b, place));
    }
    int done = 0;
    for (int place = 0; place < study_.places[b]; ++place) {
      const Byte hint = study_.hint_of[b][place];
      if ((done >> hint & 1) == 0) {
        state_.answers[hint] = static_cast<Byte>(state_.answers[hint] - rounds * burst(b, place));
        done |= 1 << hint;
      }
    }
  }

  int burst(int b, int place) const { return static_cast<int>(study_.turns[study_.hint_of[b][place]].size()); }

  bool are_in_phase(int buckets) const {
    if (study_.scenario.has_timers || broken(Fault::installed_within_a_burst)) {
      return true;
    }
    for (int hint = 0; hint < kHints; ++hint) {
      if (study_.is_planned(static_cast<Byte>(hint), buckets) && state_.answers[hint] != 0) {
        return false;
      }
    }
    return true;
  }

  /// Forgets what is held of these hints, of each rank by its own: who reads the entry moves it.
  void put_in_force(int buckets) {
    ++state_.moves;
    for (int hint = 0; hint < kHints; ++hint) {
      if (study_.is_planned(static_cast<Byte>(hint), buckets)) {
        state_.hint_moved[hint] = state_.moves;
      }
    }
    for (int number = 0; number < kFirstBarrier; ++number) {
      int moved = 0;
      for (int each = 0; each < study_.ranks; ++each) {
        const bool is_held = state_.held[number][each] != 0;
        moved |= is_held && study_.is_planned(held_op(number, each).hint, buckets) ? 1 << each : 0;
      }
      if (moved != 0 && broken(Fault::other_hints_forgotten)) {
        moved = makers(number);
      }
      for (int each = 0; each < study_.ranks; ++each) {
        if ((moved >> each & 1) != 0) {
          state_.held[number][each] = 0;
        }
      }
    }
  }
};

}  // namespace ronde::agreement::calls_model
