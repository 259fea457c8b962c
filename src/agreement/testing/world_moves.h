// What can move in the world of the interleaving test.
#pragma once

#include <algorithm>
#include <set>

#include "agreement/testing/world_effects.h"

namespace ronde::agreement::testing_world {

class WorldMoves : public WorldState {
 public:
  using WorldState::WorldState;

 protected:
  enum class Kind : std::uint8_t {
    program,
    gate,
    late_publish,
    word,
    log,
    receive,
    take_log,
    all_published,
    reduced,
    all_done,
    peer_frozen,
    all_frozen,
    execution,
    death,
    quiet_seen,
    all_quiet,
  };
  struct Move {
    Kind kind;
    std::size_t rank = 0;
    std::size_t index = 0;  ///< bucket, peer or execution
  };

  Move choose() {
    Move move = moves_[static_cast<std::size_t>(dice_.roll(static_cast<int>(moves_.size())))];
    const auto slow = static_cast<std::size_t>(scenario_.slow_rank);  // -1: nobody
    for (int i = 0; i < 6 && move.kind == Kind::program && move.rank == slow && !owes_in_a_break(slow); ++i) {
      move = moves_[static_cast<std::size_t>(dice_.roll(static_cast<int>(moves_.size())))];
    }
    return move;
  }

  bool owes(std::size_t i) {
    return std::any_of(scenario_.names.begin(), scenario_.names.end(),
                       [&](const NameSpec& spec) { return rank(i).member.owed(spec.name) > 0; });
  }
  bool owes_in_a_break(std::size_t i) {
    const Mode mode = rank(i).member.mode();
    return (mode == Mode::frozen || mode == Mode::drain) && owes(i);
  }

  // ---- What can move

  void collect() {
    moves_.clear();
    if (rank(0).alive && coordinator_has_news_) {
      moves_.push_back({Kind::take_log});
    }
    for (std::size_t i = 0; i < size(); ++i) {
      if (rank(0).alive && !rank(i).requests.empty()) {
        moves_.push_back({Kind::receive, i});
      }
      if (rank(i).alive) {
        collect_rank(i);
      }
    }
  }

  void collect_rank(std::size_t i) {
    Rank& own = rank(i);
    const Member& member = own.member;
    if (own.copied) {
      moves_.push_back({Kind::gate, i});
    } else if (program_can_go_on(i)) {
      moves_.push_back({Kind::program, i});
    }
    if (!own.late_publishes.empty()) {
      moves_.push_back({Kind::late_publish, i});
    }
    if (!own.log.empty()) {
      moves_.push_back({Kind::log, i});
    }
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (!own.incoming[peer].empty()) {
        moves_.push_back({Kind::word, i, peer});
      }
      const std::uint32_t frozen = own.view[peer].frozen;
      if (peer != i && frozen != 0 &&
          (frozen != own.noted[peer] || (member.mode() == Mode::replay && frozen == member.epoch()))) {
        moves_.push_back({Kind::peer_frozen, i, peer});
      }
      if (!rank(peer).alive && !member.lost()[peer]) {
        moves_.push_back({Kind::death, i, peer});
      }
      if (peer != i && own.view[peer].quiet && names_news(member.lost(), *own.view[peer].quiet)) {
        moves_.push_back({Kind::quiet_seen, i, peer});
      }
    }
    collect_buckets(i);
    collect_executions(i);
    if (member.mode() == Mode::frozen && !is_ordered() && (everyone_froze(i) || broken(Trap::no_freeze_wait))) {
      moves_.push_back({Kind::all_frozen, i});
    }
    if (member.mode() == Mode::failing && everyone_quiet(i)) {
      moves_.push_back({Kind::all_quiet, i});
    }
  }

  void collect_buckets(std::size_t i) {
    const Member& member = rank(i).member;
    for (std::uint32_t id : member.in_force()) {
      if (!member.is_published(id)) {
        continue;
      }
      const Flag flag = member.next_flag(id);
      const bool over = member.mode() == Mode::failing || member.mode() == Mode::failed;
      const auto everyone = [&](auto word) {
        for (std::size_t peer = 0; peer < size(); ++peer) {
          if (!reached((this->*word)(i, peer, id), flag)) {
            return false;
          }
        }
        return true;
      };
      if (member.stage(id) == Stage::none) {
        // Also what the log has launched waits for the others' data, which may travel more slowly.
        const bool is_due = (everyone(&WorldMoves::pub) || broken(Trap::reduce_before_all_published)) &&
                            (is_next(i, {true, id, flag}) || broken(Trap::launch_by_flags));
        if (is_due && !(over && told(i, id))) {
          moves_.push_back({Kind::all_published, i, id});
        }
      } else if (member.stage(id) == Stage::reducing) {
        if (member.mode() != Mode::failed) {
          moves_.push_back({Kind::reduced, i, id});
        }
      } else if (bucket(i, id).has_done_words && (everyone(&WorldMoves::done) || broken(Trap::complete_on_own_done)) &&
                 !(over && told(i, id))) {
        moves_.push_back({Kind::all_done, i, id});
      }
    }
  }

  /// A rank that fails looks at each instance once more at most.
  bool told(std::size_t i, std::uint32_t id) { return told_.contains({i, id}); }
  void tell(std::size_t i, std::uint32_t id) {
    const Mode mode = rank(i).member.mode();
    if (mode == Mode::failing || mode == Mode::failed) {
      told_.insert({i, id});
    }
  }

  void collect_executions(std::size_t i) {
    Rank& own = rank(i);
    if (own.lane_stopped) {
      return;
    }
    constexpr std::size_t kAtOnce = 3;
    while (own.first_open < own.executions && executions_[own.first_open].parts[i].stage == 3) {
      ++own.first_open;
    }
    for (std::size_t e = own.first_open; e < std::min(own.executions, own.first_open + kAtOnce); ++e) {
      const int stage = executions_[e].parts[i].stage;
      const auto everyone = [&](int wanted) {
        return std::all_of(executions_[e].parts.begin(), executions_[e].parts.end(),
                           [&](const Execution::Part& part) { return part.stage >= wanted; });
      };
      if (stage < 3 && (stage == 0 ? is_next(i, {false, e}) : everyone(stage))) {
        moves_.push_back({Kind::execution, i, e});
      }
    }
  }

  bool program_can_go_on(std::size_t i) {
    Rank& own = rank(i);
    const std::vector<Op>& program = scenario_.programs[i];
    if (own.stopped || own.join_waits || own.pc == program.size()) {
      return false;
    }
    const Op& op = program[own.pc];
    return op.kind != Op::Kind::wait || own.submissions[op.name].current == kNothing;
  }
  static bool names_news(const RankSet& lost, const RankSet& quiet) {
    for (std::size_t i = 0; i < lost.size(); ++i) {
      if (quiet[i] && !lost[i]) {
        return true;
      }
    }
    return false;
  }
  bool everyone_froze(std::size_t i) {
    return std::all_of(rank(i).view.begin(), rank(i).view.end(),
                       [&](const Words& words) { return words.frozen == rank(i).member.epoch(); });
  }
  bool everyone_quiet(std::size_t i) {
    const Member& member = rank(i).member;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (member.lost()[peer]) {
        continue;
      }
      const std::optional<RankSet>& quiet = rank(i).view[peer].quiet;
      if (!quiet || names_news(*quiet, member.lost())) {
        return false;
      }
    }
    return true;
  }

  std::vector<Move> moves_;  ///< all that can move now

 private:
  /// By rank and bucket.
  std::set<std::pair<std::size_t, std::uint32_t>> told_;
};

}  // namespace ronde::agreement::testing_world
