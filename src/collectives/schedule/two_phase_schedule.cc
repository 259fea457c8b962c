#include "collectives/schedule/two_phase_schedule.h"

#include <algorithm>
#include <numeric>

#include "collectives/schedule/two_phase_order.h"
#include "collectives/slices.h"

namespace ronde::collectives {

namespace {

constexpr int kInputs = 0;
constexpr int kOutputs = 1;

class TwoPhaseSchedule : public Schedule {
 public:
  TwoPhaseSchedule(int rank, int ranks, std::size_t bytes, std::size_t slice, int owners)
      : rank_(rank),
        ranks_(ranks),
        bytes_(bytes),
        owners_(owners),
        chunks_(bytes, slice * static_cast<std::size_t>(owners)),
        order_(chunks_.count) {}

  bool keeps_what_it_sends() const final { return true; }
  std::size_t stages() const final { return order_.stages(); }

  void describe(std::size_t index, Stage& stage) const final {
    const TwoPhaseOrder::At at = order_.at(index);
    stage.after = at.after;
    at.is_first ? describe_first(at.chunk, stage) : describe_second(at.chunk, stage);
  }

 protected:
  virtual void describe_first(std::size_t chunk, Stage& stage) const = 0;
  virtual void describe_second(std::size_t chunk, Stage& stage) const = 0;

  Range whole(std::size_t chunk) const {
    return {std::min(chunk * chunks_.bytes_each, bytes_), std::min((chunk + 1) * chunks_.bytes_each, bytes_)};
  }
  Piece slice(std::size_t chunk, int owner, int list) const {
    const Range part = slice_of(whole(chunk), owner, owners_);
    return {list, part.begin, part.end};
  }
  /// Beginning with a different one on each rank, so that not all send to one at a time.
  int peer_to(int distance) const { return (rank_ + distance) % ranks_; }
  int peer_from(int distance) const { return (rank_ + ranks_ - distance) % ranks_; }

  const int rank_;
  const int ranks_;

 private:
  const std::size_t bytes_;
  const int owners_;
  const Chunks chunks_;
  const TwoPhaseOrder order_;
};

class AllreduceSchedule final : public TwoPhaseSchedule {
 public:
  AllreduceSchedule(int rank, int ranks, std::size_t bytes, std::size_t slice)
      : TwoPhaseSchedule(rank, ranks, bytes, slice, ranks), inputs_(static_cast<std::size_t>(ranks)) {
    std::iota(inputs_.begin(), inputs_.end(), 0);
  }
  const std::vector<int>& inputs(std::size_t) const override { return inputs_; }
  /// A reduced slice comes from a rank that has had this rank's.
  std::size_t written_ahead() const override { return 2 * TwoPhaseOrder::kAhead; }

 private:
  void describe_first(std::size_t chunk, Stage& stage) const override {
    const Piece own = slice(chunk, rank_, kInputs);
    for (int distance = 1; distance < ranks_; ++distance) {
      const int to = peer_to(distance);
      if (const Piece piece = slice(chunk, to, kInputs); piece.bytes() > 0 || chunk == 0) {
        stage.outgoing.push_back({to, piece});
      }
      if (own.bytes() > 0 || chunk == 0) {
        stage.incoming.push_back({peer_from(distance), {kKept, own.begin, own.end}});
      }
    }
    stage.work = own.bytes() > 0 ? Work::reduce : Work::none;
    stage.own = own;
  }

  void describe_second(std::size_t chunk, Stage& stage) const override {
    const Piece own = slice(chunk, rank_, kOutputs);
    for (int distance = 1; distance < ranks_; ++distance) {
      if (own.bytes() > 0) {
        stage.outgoing.push_back({peer_to(distance), own});
      }
      const int from = peer_from(distance);
      if (const Piece piece = slice(chunk, from, kOutputs); piece.bytes() > 0) {
        stage.incoming.push_back({from, piece});
      }
    }
  }

  std::vector<int> inputs_;
};

class BroadcastSchedule final : public TwoPhaseSchedule {
 public:
  BroadcastSchedule(int rank, int ranks, int root, std::size_t bytes, std::size_t slice)
      : TwoPhaseSchedule(rank, ranks, bytes, slice, ranks - 1), root_(root) {}
  const std::vector<int>& inputs(std::size_t) const override { return none_; }

 private:
  /// Which slice is this rank's. Requires: not the root.
  int owner(int rank) const { return (rank - root_ + ranks_ - 1) % ranks_; }

  void describe_first(std::size_t chunk, Stage& stage) const override {
    if (rank_ != root_) {
      if (const Piece own = slice(chunk, owner(rank_), kOutputs); own.bytes() > 0) {
        stage.incoming.push_back({root_, own});
      }
      return;
    }
    for (int distance = 1; distance < ranks_; ++distance) {
      const int to = peer_to(distance);
      if (const Piece piece = slice(chunk, owner(to), kInputs); piece.bytes() > 0) {
        stage.outgoing.push_back({to, piece});
      }
    }
    stage.work = Work::carry_over;
    stage.own = {kInputs, whole(chunk).begin, whole(chunk).end};
  }

  void describe_second(std::size_t chunk, Stage& stage) const override {
    if (rank_ == root_) {
      return;
    }
    const Piece own = slice(chunk, owner(rank_), kOutputs);
    for (int distance = 1; distance < ranks_; ++distance) {
      if (const int to = peer_to(distance); to != root_ && own.bytes() > 0) {
        stage.outgoing.push_back({to, own});
      }
      const int from = peer_from(distance);
      if (from == root_) {
        continue;
      }
      if (const Piece piece = slice(chunk, owner(from), kOutputs); piece.bytes() > 0) {
        stage.incoming.push_back({from, piece});
      }
    }
  }

  const int root_;
  const std::vector<int> none_;
};

}  // namespace

std::unique_ptr<Schedule> two_phase_allreduce_schedule(int rank, int ranks, std::size_t bytes, std::size_t slice) {
  return std::make_unique<AllreduceSchedule>(rank, ranks, bytes, slice);
}

std::unique_ptr<Schedule> two_phase_broadcast_schedule(int rank, int ranks, int root, std::size_t bytes,
                                                       std::size_t slice) {
  return std::make_unique<BroadcastSchedule>(rank, ranks, root, bytes, slice);
}

}  // namespace ronde::collectives
