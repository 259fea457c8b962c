// Random programs for the interleaving test: what each rank submits and waits for, and what may go wrong meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "control/messages.h"
#include "types/request.h"

namespace ronde::agreement::testing_world {

/// What happens in a history, event by event, and where it ends. `world` has not begun.
template <typename World>
std::string run_with_events(World&& world) {
  world.tracing = true;
  world.run();
  std::string text;
  for (const std::string& event : world.trace) {
    text += event + "\n";
  }
  return text + world.where_all_are();
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15 + 1) {}
  /// 0 .. sides - 1
  int roll(int sides) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(sides)); }
  bool one_in(int sides) { return roll(sides) == 0; }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<std::size_t>(roll(static_cast<int>(i)))]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

/// What a tensor is, and the ways in which it may come differently.
enum class Variant : std::uint8_t { usual, other_shape, other_place };

struct NameSpec {
  std::string name;
  std::int64_t elements = 1;
  bool shared = true;
  PlannedGroup group = {};
  std::vector<std::string> planning_names = {};  ///< by rank; empty: it has a name, this one
  int place = 0;                                 ///< which of the tensors in shared memory

  /// Each rank has its tensors elsewhere.
  Descriptor descriptor(Variant variant, std::size_t rank) const {
    Descriptor made;
    made.tensors.push_back({DType::float32, {elements + (variant == Variant::other_shape ? 1 : 0)}});
    made.planned_group = group;
    made.memory_place = shared && variant != Variant::other_place
                            ? (place + 1) * 1024 + static_cast<std::int64_t>(rank) * 128
                            : kNoOffset;
    return made;
  }
};

struct Op {
  enum class Kind : std::uint8_t { submit, wait, join, leave } kind = Kind::submit;
  std::size_t name = 0;
  Variant variant = Variant::usual;
};

struct Scenario {
  std::uint64_t seed = 0;
  int ranks = 2;
  bool messages = false;         ///< words travel in FIFOs, one per writer and reader, else they are seen at once
  bool matching = true;          ///< every request must succeed unless a rank dies
  bool timers_may_help = false;  ///< else a history in which nothing can move on has failed
  int breaks = 0;                ///< at most so many, at any moment, for no reason
  int deadlines = 0;             ///< moments at which the time of everything held is up
  int kills = 0;
  int refusals = 0;                 ///< of PREPARE
  int slow_rank = -1;               ///< its program seldom moves
  control::SettingsEntry settings;  ///< ordered: every fourth history
  std::vector<NameSpec> names;
  std::vector<std::vector<Op>> programs;  ///< by rank
};

enum class Style : int {
  plain,
  one_at_a_time,
  alternating,
  extra_name,
  missing_on_all,
  missing_on_one,
  other_shape_on_one,
  other_shape_on_all,
  other_place,
  join,
  persistent,
  leave,
  late_rank,
  unnamed,
  unnamed_other_hints,
  unnamed_other_call,
  kCount,
};

class Author {
 public:
  explicit Author(std::uint64_t seed) : dice_(seed) { scenario_.seed = seed; }

  Scenario write() {
    const auto style = static_cast<Style>(dice_.roll(static_cast<int>(Style::kCount)));
    constexpr int kRanks[] = {2, 2, 2, 2, 3, 3, 3, 4, 4, 5};
    scenario_.ranks = kRanks[dice_.roll(10)];
    scenario_.messages = dice_.one_in(2);
    scenario_.breaks = dice_.one_in(3) ? 0 : 1 + dice_.roll(3);
    scenario_.kills = dice_.one_in(7) ? 1 + dice_.roll(2) : 0;
    scenario_.refusals = dice_.one_in(20) ? 1 : 0;
    scenario_.settings = {dice_.one_in(4) ? 0u : 4000u, 450, {56, 500}, scenario_.seed % 4 == 3};
    if (style == Style::unnamed || style == Style::unnamed_other_hints || style == Style::unnamed_other_call) {
      write_unnamed(style);
      return std::move(scenario_);
    }
    make_names(style);
    const int steps = 4 + dice_.roll(5);
    odd_step_ = 1 + dice_.roll(steps - 1);
    odd_rank_ = dice_.roll(scenario_.ranks);
    odd_name_ = static_cast<std::size_t>(dice_.roll(static_cast<int>(scenario_.names.size())));
    period_ = 2 + dice_.roll(2);
    waits_in_order_ = dice_.one_in(2);
    scenario_.programs.resize(static_cast<std::size_t>(scenario_.ranks));
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      const bool uneven = style == Style::join || style == Style::leave;
      const int own_steps = uneven ? std::max(1, steps - dice_.roll(4)) : steps;
      lengths_.push_back(own_steps);
      for (int step = 0; step < own_steps; ++step) {
        write_step(style, rank, step);
      }
    }
    finish(style);
    return std::move(scenario_);
  }

 private:
  void make_names(Style style) {
    const int count = 2 + dice_.roll(3);
    for (int i = 0; i < count; ++i) {
      NameSpec spec;
      spec.name = "t" + std::to_string(i);
      spec.place = i;
      spec.shared = !dice_.one_in(3);
      constexpr std::int64_t kSizes[] = {1, 5, 100, 300};
      spec.elements = spec.shared ? 4 : kSizes[dice_.roll(4)];
      if (style == Style::persistent) {
        spec.group = {77, static_cast<std::uint32_t>(count)};
      }
      scenario_.names.push_back(spec);
    }
  }

  /// Every rank makes the same calls in the same order. What it waits for in between is its own affair. Where all wait
  /// at the end of each round, for the same in between in each, and every call of a round has a planning name of its
  /// own, no timer is needed to learn what may be fused.
  void write_unnamed(Style style) {
    const int length = 1 + dice_.roll(4);
    const int rounds = 8 + dice_.roll(8);
    const int hints = dice_.one_in(2) ? length : 1 + dice_.roll(length);
    const bool in_rounds = dice_.one_in(2);
    const bool shared = dice_.one_in(2);
    constexpr std::int64_t kSizes[] = {1, 5, 100, 300};
    const std::int64_t elements = shared ? 4 : kSizes[dice_.roll(4)];
    const auto calls = static_cast<std::size_t>(length * rounds);
    const auto odd_rank = static_cast<std::size_t>(dice_.roll(scenario_.ranks));
    const auto odd_call = static_cast<std::size_t>(dice_.roll(static_cast<int>(calls)));
    for (std::size_t call = 0; call < calls; ++call) {
      NameSpec spec;
      spec.name = "t" + std::to_string(call);
      spec.shared = shared;
      spec.elements = elements;
      spec.place = static_cast<int>(call) % length % hints;
      spec.planning_names.assign(static_cast<std::size_t>(scenario_.ranks), "h" + std::to_string(spec.place));
      if (style == Style::unnamed_other_hints && dice_.one_in(6)) {
        spec.planning_names[odd_rank] = "h" + std::to_string(dice_.roll(length + 1));
      }
      scenario_.names.push_back(spec);
    }
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(scenario_.ranks); ++rank) {
      std::vector<int> waits(static_cast<std::size_t>(length));  // behind each call of a round: how many back, or none
      for (int& back : waits) {
        back = dice_.one_in(2) ? -1 : dice_.roll(3);
      }
      std::vector<Op>& program = scenario_.programs.emplace_back();
      for (std::size_t call = 0; call < calls; ++call) {
        const bool odd = style == Style::unnamed_other_call && call == odd_call && rank == odd_rank;
        program.push_back({Op::Kind::submit, call, odd ? Variant::other_shape : Variant::usual});
        const int back = waits[call % static_cast<std::size_t>(length)];
        if (back >= 0 && static_cast<std::size_t>(back) <= call) {
          program.push_back({Op::Kind::wait, call - static_cast<std::size_t>(back)});
        }
        for (int i = 0; in_rounds && (call + 1) % static_cast<std::size_t>(length) == 0 && i < length; ++i) {
          program.push_back({Op::Kind::wait, call - static_cast<std::size_t>(i)});
        }
      }
      for (std::size_t call = 0; call < calls; ++call) {
        program.push_back({Op::Kind::wait, call});
      }
    }
    scenario_.matching = style != Style::unnamed_other_call;
    scenario_.timers_may_help = style == Style::unnamed_other_hints || !in_rounds || hints < length;
  }

  void write_step(Style style, int rank, int step) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < scenario_.names.size(); ++i) {
      const bool odd = i == odd_name_;
      const bool here = step == odd_step_;
      const bool skip = (style == Style::alternating && i % 2 != static_cast<std::size_t>(step % 2)) ||
                        (style == Style::extra_name && odd && step % period_ != 0) ||
                        (style == Style::missing_on_all && odd && here) ||
                        (style == Style::missing_on_one && odd && here && rank == odd_rank_);
      if (!skip) {
        order.push_back(i);
      }
    }
    dice_.shuffle(order);
    std::vector<Op>& program = scenario_.programs[static_cast<std::size_t>(rank)];
    if (style == Style::one_at_a_time) {
      std::sort(order.begin(), order.end());  // every rank in the same order, or they wait for each other for ever
    }
    for (std::size_t i : order) {
      program.push_back({Op::Kind::submit, i, variant(style, rank, step, i)});
      if (style == Style::one_at_a_time) {
        program.push_back({Op::Kind::wait, i});
      }
    }
    if (style != Style::one_at_a_time) {
      if (waits_in_order_) {
        std::sort(order.begin(), order.end());
      }
      for (std::size_t i : order) {
        program.push_back({Op::Kind::wait, i});
      }
    }
  }

  Variant variant(Style style, int rank, int step, std::size_t name) const {
    if (name != odd_name_) {
      return Variant::usual;
    }
    switch (style) {
      case Style::other_shape_on_one:
        return step == odd_step_ && rank == odd_rank_ ? Variant::other_shape : Variant::usual;
      case Style::other_shape_on_all: return step >= odd_step_ ? Variant::other_shape : Variant::usual;
      case Style::other_place: return step == odd_step_ && rank == odd_rank_ ? Variant::other_place : Variant::usual;
      default: return Variant::usual;
    }
  }

  void finish(Style style) {
    const bool even = std::all_of(lengths_.begin(), lengths_.end(), [this](int n) { return n == lengths_.front(); });
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      std::vector<Op>& program = scenario_.programs[static_cast<std::size_t>(rank)];
      if (style == Style::join) {
        while (waits_in_order_ && program.back().kind == Op::Kind::wait) {
          program.pop_back();  // join itself waits for what is outstanding
        }
        program.push_back({Op::Kind::join});
        for (int step = 0; step < 3; ++step) {
          write_step(Style::plain, rank, step);
        }
      } else if (style == Style::leave) {
        program.push_back({Op::Kind::leave});
      }
    }
    switch (style) {
      case Style::missing_on_one: scenario_.deadlines = dice_.roll(3); [[fallthrough]];
      case Style::other_shape_on_one:
        scenario_.matching = false;
        scenario_.timers_may_help = style == Style::missing_on_one;
        break;
      case Style::missing_on_all: scenario_.timers_may_help = true; break;
      case Style::leave: scenario_.matching = even; break;
      case Style::late_rank:
        scenario_.slow_rank = odd_rank_;
        scenario_.deadlines = 2 + dice_.roll(4);
        scenario_.breaks = 6;
        scenario_.matching = false;
        break;
      default: break;
    }
  }

  Dice dice_;
  Scenario scenario_;
  std::vector<int> lengths_;
  int odd_step_ = 0;
  int odd_rank_ = 0;
  std::size_t odd_name_ = 0;
  int period_ = 2;
  bool waits_in_order_ = false;
};

}  // namespace ronde::agreement::testing_world
