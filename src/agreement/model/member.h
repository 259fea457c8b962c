// A rank in the model of unnamed calls: its program, its calls and its buckets.
#pragma once

#include "actions.h"

namespace ronde::agreement::calls_model {

class MemberHalf : public Half {
 public:
  MemberHalf(const Study& study, State& state, std::string& violation, int own)
      : Half(study, state, violation), own_(own), me_(state.ranks[static_cast<std::size_t>(own)]) {}

  // ---- Actions. False: not possible now, and nothing has changed.

  bool go_on() {
    const auto& program = study_.programs[static_cast<std::size_t>(own_)];
    if (me_.waits_for != 0 || me_.next == program.size()) {
      return false;
    }
    const Op& op = program[me_.next];
    if (op.kind == Op::Kind::wait) {
      if (!has_ended(op.target)) {
        return false;
      }
      me_.waited = static_cast<Byte>(me_.waited | 1 << op.target);
      ++me_.next;
      return true;
    }
    const int index = me_.next++;
    if (op.kind == Op::Kind::barrier) {
      call_barrier(index, op);
    } else if (op.kind == Op::Kind::refused) {
      refuse(index);
    } else {
      me_.calls[index].number = take_number(index, op);
      submit_call(index, op);
    }
    return true;
  }

  /// The program waits for any call that it has made, beside the waits that are written in it.
  bool wait(int index) {
    if (state_.waits == 0 || me_.waits_for != 0 || index >= me_.next || has_ended(index) ||
        op_of(own_, index).kind == Op::Kind::wait) {
      return false;
    }
    --state_.waits;
    me_.waits_for = static_cast<Byte>(index + 1);
    return true;
  }

  bool see_frozen() {
    for (int other = 0; other < study_.ranks && me_.mode == Mode::replay; ++other) {
      if (other != own_ && words(other).frozen == me_.epoch) {
        freeze();
        return true;
      }
    }
    return false;
  }

  bool break_off() {
    if (me_.mode != Mode::replay || state_.breaks == 0) {
      return false;
    }
    --state_.breaks;
    freeze();
    return true;
  }

  bool lose_patience() {
    const bool waits = std::any_of(me_.calls.begin(), me_.calls.end(), [](const Call& call) {
      return call.stage == CallStage::placed || call.stage == CallStage::queued;
    });
    if (me_.mode != Mode::replay || !study_.scenario.has_timers || !waits) {
      return false;
    }
    freeze();
    return true;
  }

  bool store_late_numbers() {
    if (me_.late_word == 0) {
      return false;
    }
    store_numbers(std::exchange(me_.late_word, Byte{0}) - 1);
    return true;
  }

  /// All have published: compares the numbers, and begins its slice if they are equal.
  bool begin(int b) {
    if (me_.mode == Mode::negotiate || me_.published[b] == 0 || me_.stage[b] != Stage::none || !all_published(b)) {
      return false;
    }
    const bool compares = !broken(Fault::numbers_not_compared) &&
                          !(broken(Fault::one_rank_does_not_compare) && own_ == 1) &&
                          !(broken(Fault::not_compared_in_a_break) && me_.mode != Mode::replay);
    const bool is_void = compares && numbers_differ(b);
    judge(b, is_void);
    if (is_void) {
      void_instance(b);
    } else {
      touch(b);
      me_.stage[b] = Stage::reducing;
    }
    return true;
  }

  bool finish_slice(int b) {
    if (me_.stage[b] != Stage::reducing) {
      return false;
    }
    touch(b);
    if (study_.is_inlined(b)) {
      complete(b);
    } else {
      own_words().done[b] = flag(b);
      me_.stage[b] = Stage::reduced;
    }
    return true;
  }

  bool see_done(int b) {
    if (me_.stage[b] != Stage::reduced) {
      return false;
    }
    for (int other = 0; other < study_.ranks; ++other) {
      if (!FlagWord::has_reached(words(other).done[b], flag(b))) {
        return false;
      }
    }
    complete(b);
    return true;
  }

  bool decide() {
    if (me_.mode != Mode::frozen) {
      return false;
    }
    for (int other = 0; other < study_.ranks; ++other) {
      if (words(other).frozen != me_.epoch) {
        return false;
      }
    }
    for (int b = 0; b < kBuckets; ++b) {
      int smallest = 15;
      for (int other = 0; other < study_.ranks; ++other) {
        smallest = std::min(smallest, published_by(other, b));
      }
      me_.decided[b] = is_in_force(b) ? static_cast<Byte>(smallest) : Byte{0};
    }
    me_.mode = Mode::drain;
    return true;
  }

  bool leave_epoch() {
    if (me_.mode != Mode::drain) {
      return false;
    }
    for (int b = 0; b < kBuckets; ++b) {
      if (is_in_force(b) && me_.instances[b] != me_.decided[b]) {
        return false;
      }
    }
    me_.mode = Mode::negotiate;
    me_.in_force = 0;
    me_.places = {};
    me_.turn = {};
    me_.instances = {};
    me_.decided = {};
    me_.published = {};
    for (Call& call : me_.calls) {
      const bool is_queued = call.stage == CallStage::queued && !broken(Fault::queue_not_sent_in_a_break);
      call.stage = call.stage == CallStage::placed || is_queued ? CallStage::held : call.stage;
      call.at = is_queued ? Byte{0} : call.at;
    }
    for (int index = 0; index < me_.next; ++index) {
      if (me_.calls[index].stage == CallStage::held) {
        send_or_fail(index);
      }
    }
    send({Message::Kind::end, me_.epoch, 0, me_.label, 0});
    return true;
  }

  bool read() {
    if ((me_.mode != Mode::negotiate && me_.mode != Mode::replay) || me_.position >= state_.entries) {
      return false;
    }
    const Entry entry = state_.log[me_.position++];
    if (entry.kind == Entry::Kind::exec) {
      read_exec(entry);
      return true;
    }
    ++me_.label;
    if (entry.kind == Entry::Kind::error) {
      read_error(entry);
    } else if (entry.kind == Entry::Kind::install) {
      if (me_.mode != Mode::negotiate) {
        bad(text("INSTALL within an epoch, rank", own_));
      }
      me_.epoch = entry.number;
      me_.mode = Mode::replay;
      me_.in_force = entry.mask;
      move_calls(entry.mask);
    } else if (me_.mode == Mode::replay) {
      me_.in_force = static_cast<Byte>(me_.in_force | entry.mask);
      move_calls(entry.mask);
    } else if (!broken(Fault::no_resend_after_add)) {
      for (int index = 0; index < me_.next; ++index) {
        if (is_moved_by(index, entry.mask)) {
          send_request(index);
        }
      }
    }
    return true;
  }

 private:
  Words& words(int index) { return state_.words[static_cast<std::size_t>(index)]; }
  Words& own_words() { return words(own_); }
  bool is_in_force(int b) const { return (me_.in_force >> b & 1) != 0; }
  int instance(int b) const { return me_.instances[b] + 1; }
  Byte flag(int b) const { return FlagWord::encode(me_.epoch, static_cast<std::uint64_t>(instance(b))); }
  int parity(int b) const { return instance(b) & 1; }
  int word_parity(int b) const { return broken(Fault::one_word_for_both_parities) ? 0 : parity(b); }
  bool has_ended(int index) const { return me_.calls[index].stage >= CallStage::succeeded; }
  int published_by(int other, int b) {
    int most = 0;
    for (const Byte word : words(other).flag[b]) {
      most = std::max<int>(most, FlagWord::instance(word, me_.epoch));
    }
    return most;
  }
  bool all_published(int b) {
    for (int other = 0; other < study_.ranks; ++other) {
      if (published_by(other, b) < instance(b)) {
        return false;
      }
    }
    return true;
  }
  void freeze() {
    me_.mode = Mode::frozen;
    own_words().frozen = me_.epoch;
  }

  // ---- Messages

  void send(const Message& message) {
    Byte& count = state_.messages[own_];
    if (count == kMessages) {
      return bad("bound of the model: messages");
    }
    state_.up[own_][count++] = message;
  }
  void send_request(int index, Byte calls_before = 0) {
    me_.calls[index].stage = CallStage::sent;
    send({Message::Kind::request, me_.calls[index].number, static_cast<Byte>(index), me_.label, calls_before});
  }
  void send_or_fail(int index, Byte calls_before = 0) {
    if (std::exchange(me_.owed[me_.calls[index].number], Byte{0}) != 0) {
      end_call(index, false);
    } else {
      send_request(index, calls_before);
    }
  }

  // ---- The program

  Byte take_number(int index, const Op& op) {
    if (broken(Fault::hint_is_the_name) && op.hint != kNoHint) {
      int before = 0;
      for (int i = 0; i < index; ++i) {
        before += op_of(own_, i).hint == op.hint ? 1 : 0;
      }
      return static_cast<Byte>(op.hint * kCallsInCount + before);
    }
    if (broken(Fault::number_free_after_wait)) {
      std::uint32_t taken = 0;
      for (int i = 0; i < index; ++i) {
        const bool is_call = op_of(own_, i).kind == Op::Kind::call;
        taken |= is_call && (me_.waited >> i & 1) == 0 ? 1U << me_.calls[i].number : 0;
      }
      Byte lowest = 0;
      while ((taken >> lowest & 1) != 0) {
        ++lowest;
      }
      return lowest;
    }
    return static_cast<Byte>(me_.barriers * kCallsInCount + me_.count++);
  }

  void refuse(int index) {
    me_.calls[index].stage = CallStage::failed;
    if (broken(Fault::refused_call_not_counted)) {
      return;
    }
    const Byte number = take_number(index, op_of(own_, index));
    me_.calls[index].number = number;
    me_.owed[number] = 0;
    me_.refused[number] = 1;
    if (!broken(Fault::refusal_not_told)) {
      send({Message::Kind::refused, number, static_cast<Byte>(index), me_.label, 0});
    }
  }

  /// Its name stands where a call has its number.
  void call_barrier(int index, const Op& op) {
    const Byte calls_before = me_.count;
    if (!broken(Fault::count_goes_on_at_barrier) && !(broken(Fault::one_rank_counts_on_at_barrier) && own_ == 0)) {
      ++me_.barriers;
      me_.count = 0;
    }
    me_.calls[index].number = op.meets;
    me_.waits_for = op.blocks ? static_cast<Byte>(index + 1) : me_.waits_for;
    send_or_fail(index, calls_before);
  }

  void submit_call(int index, const Op& op) {
    const bool is_owed = me_.owed[me_.calls[index].number] != 0;
    const bool is_planned = me_.mode == Mode::replay && study_.is_planned(op.hint, me_.in_force);
    if (is_owed || !is_planned || !place_call(index, op)) {
      send_or_fail(index);
    }
  }

  // ---- Places

  bool place_call(int index, const Op& op) {
    const std::vector<Byte>& places = study_.turns[op.hint];
    const Byte at = places[me_.turn[op.hint]];
    if (op.descriptor != 0 && !broken(Fault::descriptors_not_compared)) {
      return false;
    }
    me_.turn[op.hint] = static_cast<Byte>((me_.turn[op.hint] + 1U) % places.size());
    if (me_.places[at / kPlaces][at % kPlaces] == 0 && first_queued(at) < 0) {
      put(index, at);
    } else {
      me_.calls[index].stage = CallStage::queued;
      me_.calls[index].at = at;
    }
    return true;
  }

  int first_queued(int at) const {
    for (int index = 0; index < kOps; ++index) {
      if (me_.calls[index].stage == CallStage::queued && me_.calls[index].at == at) {
        return index;
      }
    }
    return -1;
  }

  void put(int index, int at) {
    const int b = at / kPlaces;
    me_.calls[index].stage = CallStage::placed;
    me_.calls[index].at = 0;
    me_.places[b][at % kPlaces] = static_cast<Byte>(index + 1);
    for (int place = 0; place < study_.places[b]; ++place) {
      if (me_.places[b][place] == 0) {
        return;
      }
    }
    me_.published[b] = 1;
    own_words().flag[b][parity(b)] = flag(b);
    for (int place = 0; place < study_.places[b]; ++place) {
      own_words().meets[b][parity(b)][place] = op_of(own_, me_.places[b][place] - 1).meets;
    }
    if (broken(Fault::word_behind_its_flag)) {
      me_.late_word = static_cast<Byte>(b + 1);
    } else {
      store_numbers(b);
    }
  }

  void store_numbers(int b) {
    for (int place = 0; place < study_.places[b]; ++place) {
      const int index = me_.places[b][place] - 1;
      own_words().numbers[b][word_parity(b)][place] = index < 0 ? Byte{0} : me_.calls[index].number;
    }
  }

  bool numbers_differ(int b) {
    for (int other = 0; other < study_.ranks; ++other) {
      if (words(other).numbers[b][word_parity(b)] != own_words().numbers[b][word_parity(b)]) {
        return true;
      }
    }
    return false;
  }

  void clear(int b) {
    ++me_.instances[b];
    me_.published[b] = 0;
    me_.stage[b] = Stage::none;
    me_.places[b] = {};
  }

  void void_instance(int b) {
    if (study_.scenario.never_void) {
      bad(text("a void instance of equal programs with equal hints, rank", own_));
    }
    for (int place = 0; place < study_.places[b]; ++place) {
      Call& call = me_.calls[me_.places[b][place] - 1];
      call.stage = broken(Fault::void_calls_not_sent) ? CallStage::fresh : CallStage::held;
    }
    clear(b);
    if (me_.mode == Mode::replay && !broken(Fault::void_does_not_break)) {
      freeze();
    }
  }

  void complete(int b) {
    for (int place = 0; place < study_.places[b]; ++place) {
      end_call(me_.places[b][place] - 1, true);
    }
    clear(b);
    for (int place = 0; place < study_.places[b] && me_.mode == Mode::replay; ++place) {
      const int at = b * kPlaces + place;
      if (const int index = first_queued(at); index >= 0) {
        put(index, at);
      }
    }
  }

  // ---- The log

  bool is_moved_by(int index, int buckets) const {
    return me_.calls[index].stage == CallStage::sent && study_.is_planned(op_of(own_, index).hint, buckets);
  }

  void move_calls(int buckets) {
    std::vector<int> moved;
    for (int index = 0; index < me_.next; ++index) {
      if (is_moved_by(index, buckets)) {
        moved.push_back(index);
      }
    }
    if (broken(Fault::moved_in_other_order) && own_ == 1) {
      std::reverse(moved.begin(), moved.end());
    }
    for (int index : moved) {
      if (!place_call(index, op_of(own_, index))) {
        send_request(index);
      }
    }
  }

  /// The call of this number that is with the coordinator; -1: none.
  int find_sent(const Entry& entry) const {
    const bool by_order = broken(Fault::requests_without_number) && entry.number < kFirstBarrier;
    for (int index = 0; index < me_.next; ++index) {
      const Call& call = me_.calls[index];
      if (call.stage == CallStage::sent && (by_order || call.number == entry.number)) {
        return index;
      }
    }
    return -1;
  }

  void read_exec(const Entry& entry) {
    const int index = find_sent(entry);
    if (index < 0) {
      return bad(text("agreed on a call that is not with the coordinator, rank", own_));
    }
    if (op_of(own_, index).meets != entry.meets) {
      bad(text("agreed on one call and executes another, rank", own_));
    }
    end_call(index, true);
  }

  void read_error(const Entry& entry) {
    if ((entry.mask >> own_ & 1) != 0 || me_.refused[entry.number] != 0) {
      return;
    }
    const int index = find_sent(entry);
    if (index >= 0) {
      end_call(index, false);
    } else if (!broken(Fault::refusal_not_owed)) {
      me_.owed[entry.number] = 1;
    }
  }

  // ---- Checks

  /// Ends a call; with success only if every rank makes this call with this descriptor.
  void end_call(int index, bool well) {
    const Op& op = op_of(own_, index);
    Call& call = me_.calls[index];
    if (has_ended(index)) {
      bad(text("a call ends twice on rank", own_));
    }
    if (well && !study_.must_succeed[op.meets]) {
      bad(text("a call succeeds that no call of every rank matches, rank", own_));
    }
    call.stage = well ? CallStage::succeeded : CallStage::failed;
    if (me_.waits_for == index + 1) {
      me_.waited = static_cast<Byte>(me_.waited | 1 << index);
      me_.waits_for = 0;
    }
  }

  /// All ranks come to the same judgement of an instance.
  void judge(int b, bool is_void) {
    Byte& judged = state_.judged[b][parity(b)];
    Byte& was_void = state_.was_void[b][parity(b)];
    if (judged == flag(b) && (was_void != 0) != is_void) {
      bad(text("an instance is void on one rank and reduced on another, rank", own_));
    }
    judged = flag(b);
    was_void = is_void ? 1 : 0;
  }

  /// What this rank reads and writes when it reduces: published for this instance by its owner, who was not told its
  /// end, and the same calls on all.
  void touch(int b) {
    for (int other = 0; other < study_.ranks; ++other) {
      const Rank& peer = rank(other);
      if (words(other).flag[b][parity(b)] != flag(b)) {
        bad(text("reads what is not published for this instance: rank", own_));
      } else if (words(other).meets[b][parity(b)] != own_words().meets[b][parity(b)]) {
        bad(text("reduces different calls: rank", own_));
      }
      if (study_.is_inlined(b)) {
        continue;  // reads lines only
      }
      if (peer.epoch != me_.epoch || peer.instances[b] != me_.instances[b] || peer.published[b] == 0) {
        bad(text("touches memory after its owner was told the end: rank", own_));
      }
    }
  }

  int own_;
  Rank& me_;
};

}  // namespace ronde::agreement::calls_model
