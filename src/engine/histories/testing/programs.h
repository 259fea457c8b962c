// What the ranks of a history do: the programs of agreement's histories (agreement/testing/histories.h), with values,
// types and operations, and what else is drawn by lot: links, thresholds, hosts, and what disturbs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agreement/testing/histories.h"
#include "types/request.h"
#include "types/thresholds.h"

namespace ronde::engine::histories {

using agreement::testing_world::Dice;
using agreement::testing_world::NameSpec;
using agreement::testing_world::Op;
using agreement::testing_world::Scenario;
using agreement::testing_world::Variant;

/// What is done under a name.
struct Work {
  OpKind kind = OpKind::allreduce;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::float32;
  int root = 0;
  bool in_place = true;
  bool is_slot = false;  ///< one ticket, submitted again and again over the same memory
  bool has_callback = false;
};

struct History {
  Scenario scenario;
  std::vector<Work> works;  ///< by name
  bool is_unnamed = false;
  bool any_joins = false;
  bool any_leaves = false;
  Thresholds thresholds;
  std::vector<int> first_of;    ///< by rank the first of its host; empty: each is on its own
  const char* table = nullptr;  ///< of limits between hosts; null: as built in
  std::size_t room = 4;         ///< messages that a link takes
  int tables = 0;             ///< so often another row of thresholds is proposed
  int cancels = 0;
  Nanoseconds limit = kNever;        ///< of each request
  bool refuses_odd_call = false;     ///< in place of an unnamed call that is another: its rank cannot make it
  std::vector<bool> leaves_at_once;  ///< by rank: at its end it waits for nobody
};

/// Of these what is small takes two phases, in several chunks.
inline Thresholds drawn_thresholds(Dice& dice) {
  Thresholds thresholds;
  constexpr std::uint64_t kOneShots[] = {16, 128, 400, 32 << 10};
  thresholds.inlined = 56;
  thresholds.staged = 500;
  thresholds.one_shot = kOneShots[dice.roll(4)];
  thresholds.chunk = dice.one_in(2) ? 128 : 512;
  return thresholds;
}

inline bool has(const Scenario& scenario, Op::Kind kind) {
  return std::any_of(scenario.programs.begin(), scenario.programs.end(), [kind](const std::vector<Op>& program) {
    return std::any_of(program.begin(), program.end(), [kind](const Op& op) { return op.kind == kind; });
  });
}

/// Only all-reduces can be made while a rank has joined, and only they are planned.
inline Work drawn_work(Dice& dice, const History& history) {
  Work work;
  constexpr DType kTypes[] = {DType::float32, DType::float32, DType::int32, DType::float64};
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::sum, ReduceOp::sum, ReduceOp::max, ReduceOp::min};
  work.dtype = kTypes[dice.roll(4)];
  work.op = kOps[dice.roll(5)];
  work.root = dice.roll(history.scenario.ranks);
  work.in_place = !dice.one_in(3);
  work.is_slot = !history.is_unnamed && dice.one_in(2);
  work.has_callback = dice.one_in(8);
  if (!history.any_joins && !history.is_unnamed && dice.one_in(6)) {
    constexpr OpKind kKinds[] = {OpKind::broadcast, OpKind::allgather, OpKind::barrier};
    work.kind = kKinds[dice.roll(3)];
    work.is_slot = false;
  }
  return work;
}

inline History write_history(std::uint64_t seed) {
  History history;
  history.scenario = agreement::testing_world::Author(seed).write();
  Scenario& scenario = history.scenario;
  Dice dice(seed ^ 0x7a1e5);
  history.is_unnamed = !scenario.names.front().planning_names.empty();
  history.any_joins = has(scenario, Op::Kind::join);
  history.any_leaves = has(scenario, Op::Kind::leave);
  Work of_all = drawn_work(dice, history);
  for (std::size_t i = 0; i < scenario.names.size(); ++i) {
    history.works.push_back(history.is_unnamed ? of_all : drawn_work(dice, history));
  }
  if (history.is_unnamed && dice.one_in(2)) {
    for (NameSpec& spec : scenario.names) {  // so that places in a round differ by what is called there
      spec.elements = 1 + spec.place * 40;
    }
  }
  history.refuses_odd_call = history.is_unnamed && dice.one_in(2);
  history.thresholds = drawn_thresholds(dice);
  if (scenario.ranks > 2 && dice.one_in(2)) {
    const int per_host = scenario.ranks > 3 && dice.one_in(3) ? 3 : 2;
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      history.first_of.push_back(rank / per_host * per_host);
    }
  }
  // Larger all-reduces of more than two hosts in several turns, or in a ring.
  constexpr const char* kTables[] = {nullptr, "hosts any: large_turn 0, direct 1048576", "hosts any: ring 1"};
  history.table = kTables[dice.roll(3)];
  history.room = dice.one_in(2) ? 1 + static_cast<std::size_t>(dice.roll(4)) : 64;
  history.tables = dice.one_in(6) ? 1 + dice.roll(2) : 0;
  history.cancels = dice.one_in(8) ? 1 + dice.roll(3) : 0;
  if (!scenario.matching) {
    history.limit = 200 * kMillisecond;
  }
  if (history.cancels > 0) {
    scenario.matching = false;
  }
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    history.leaves_at_once.push_back(dice.one_in(8));
  }
  return history;
}

}  // namespace ronde::engine::histories
