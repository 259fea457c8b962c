// Looks at every state that the model of unnamed calls can come to.
#pragma once

#include <cstring>
#include <deque>
#include <unordered_set>

#include "coordinator.h"
#include "member.h"

namespace ronde::agreement::calls_model {

enum class Deed : Byte {
  go_on,
  see_frozen,
  break_off,
  lose_patience,
  store_late_numbers,
  begin,
  finish_slice,
  see_done,
  decide,
  leave_epoch,
  read,
  wait,
  receive,
  time_out,
  install,
  add,
};

constexpr std::array<const char*, 16> kDeeds = {"goes on with its program",
                                                "sees a frozen peer",
                                                "breaks",
                                                "loses patience",
                                                "stores late numbers",
                                                "looks at bucket",
                                                "ends its slice of",
                                                "has done bucket",
                                                "decides",
                                                "leaves the epoch",
                                                "reads the log",
                                                "waits for word",
                                                "is heard by the coordinator",
                                                "is timed out (number)",
                                                "(coordinator) INSTALL",
                                                "(coordinator) ADD"};

struct Action {
  Deed deed;
  Byte rank = 0;
  Byte detail = 0;
};

struct Outcome {
  std::string violation;             ///< empty: there is none
  std::vector<std::string> history;  ///< that leads to it
  std::uint64_t states = 0;
  bool is_exhausted = false;
};

class Search {
 public:
  explicit Search(const Study& study) : study_(study) {
    for (int rank = 0; rank < study.ranks; ++rank) {
      for (const Deed deed : {Deed::go_on, Deed::see_frozen, Deed::break_off, Deed::lose_patience,
                              Deed::store_late_numbers, Deed::decide, Deed::leave_epoch, Deed::read, Deed::receive}) {
        add(deed, rank);
      }
      for (std::size_t b = 0; b < study.scenario.buckets.size(); ++b) {
        add(Deed::begin, rank, b);
        add(Deed::finish_slice, rank, b);
        add(Deed::see_done, rank, b);
      }
      for (std::size_t word = 0; word < kOps && study.scenario.waits > 0; ++word) {
        add(Deed::wait, rank, word);
      }
    }
    for (std::size_t number = 0; number < kNumbers && study.scenario.has_limits; ++number) {
      add(Deed::time_out, 0, number);
    }
    add(Deed::install, 0);
    add(Deed::add, 0);
  }

  /// Breadth first, so that the history of a violation is the shortest. Stops at `most` states.
  Outcome run(std::uint64_t most) {
    struct Open {
      State state;
      std::uint32_t at;
    };
    std::deque<Open> open;
    State first;
    first.breaks = static_cast<Byte>(study_.scenario.breaks);
    first.waits = static_cast<Byte>(study_.scenario.waits);
    seen_.insert(hash_of(first));
    steps_.push_back({});
    open.push_back({first, 0});
    while (!open.empty() && steps_.size() < most) {
      const Open now = open.front();
      open.pop_front();
      bool goes_on = false;
      for (const Action& action : actions_) {
        State next = now.state;
        if (!apply(next, action)) {
          continue;
        }
        goes_on |= !is_optional(action.deed);
        if (seen_.insert(hash_of(next)).second) {
          steps_.push_back({now.at, action});
          open.push_back({next, static_cast<std::uint32_t>(steps_.size() - 1)});
        }
        if (!violation_.empty()) {
          return outcome(now.at, &action);
        }
      }
      if (!goes_on && !check_end(now.state)) {
        return outcome(now.at, nullptr);
      }
    }
    Outcome all = outcome(0, nullptr);
    all.is_exhausted = open.empty();
    return all;
  }

 private:
  struct Step {
    std::uint32_t before = 0;
    Action action{};
  };

  void add(Deed deed, int rank, std::size_t detail = 0) {
    actions_.push_back({deed, static_cast<Byte>(rank), static_cast<Byte>(detail)});
  }

  /// Nobody may rely on these.
  static bool is_optional(Deed deed) {
    return deed == Deed::break_off || deed == Deed::wait || deed == Deed::install || deed == Deed::add;
  }

  bool apply(State& state, const Action& action) {
    MemberHalf member(study_, state, violation_, action.rank);
    CoordinatorHalf coordinator(study_, state, violation_);
    switch (action.deed) {
      case Deed::go_on: return member.go_on();
      case Deed::see_frozen: return member.see_frozen();
      case Deed::break_off: return member.break_off();
      case Deed::lose_patience: return member.lose_patience();
      case Deed::store_late_numbers: return member.store_late_numbers();
      case Deed::begin: return member.begin(action.detail);
      case Deed::finish_slice: return member.finish_slice(action.detail);
      case Deed::see_done: return member.see_done(action.detail);
      case Deed::decide: return member.decide();
      case Deed::leave_epoch: return member.leave_epoch();
      case Deed::read: return member.read();
      case Deed::wait: return member.wait(action.detail);
      case Deed::receive: return coordinator.receive(action.rank);
      case Deed::time_out: return coordinator.time_out(action.detail);
      case Deed::install: return coordinator.install();
      case Deed::add: return coordinator.add();
    }
    return false;
  }

  /// Nothing more can happen: every call must have ended, on all ranks alike, and well if it is the same on all.
  bool check_end(const State& state) {
    std::array<CallStage, kNumbers> ends{};
    for (int r = 0; r < study_.ranks && violation_.empty(); ++r) {
      const auto& program = study_.programs[static_cast<std::size_t>(r)];
      const Rank& rank = state.ranks[r];
      for (std::size_t word = 0; word < program.size(); ++word) {
        const Op& op = program[word];
        const bool is_wait = op.kind == Op::Kind::wait;
        const CallStage call_stage = rank.calls[word].stage;
        const std::string which = "word " + std::to_string(word) + " of rank " + std::to_string(r);
        if (word >= rank.next || (!is_wait && call_stage < CallStage::succeeded)) {
          violation_ = "nothing moves, and " + which + " has not ended";
          return false;
        }
        CallStage& other = ends[op.meets];
        if (!is_wait && other != CallStage::fresh && other != call_stage) {
          violation_ = which + " ends otherwise than on another rank";
        }
        other = is_wait ? other : call_stage;
        if (!is_wait && study_.must_succeed[op.meets] && !study_.scenario.has_limits &&
            call_stage != CallStage::succeeded) {
          violation_ = "a call that all ranks make alike fails: " + which;
        }
      }
    }
    return violation_.empty();
  }

  Outcome outcome(std::uint32_t at, const Action* last) const {
    Outcome outcome{violation_, {}, steps_.size(), false};
    if (violation_.empty()) {
      return outcome;
    }
    std::vector<Action> actions;
    if (last != nullptr) {
      actions.push_back(*last);
    }
    for (; at != 0; at = steps_[at].before) {
      actions.push_back(steps_[at].action);
    }
    for (auto each = actions.rbegin(); each != actions.rend(); ++each) {
      outcome.history.push_back("rank " + std::to_string(each->rank) + " " +
                                kDeeds[static_cast<std::size_t>(each->deed)] + " " + std::to_string(each->detail));
    }
    return outcome;
  }

  static std::uint64_t hash_of(const State& state) {
    std::uint64_t hash = 0x9e3779b97f4a7c15;
    std::array<std::uint64_t, (sizeof(State) + 7) / 8> words{};
    std::memcpy(words.data(), &state, sizeof(State));
    for (const std::uint64_t word : words) {
      hash = (hash ^ word) * 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
    }
    return hash;
  }

  const Study& study_;
  std::vector<Action> actions_;
  std::string violation_;
  std::vector<Step> steps_;  ///< by state: from which, and how
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace ronde::agreement::calls_model
