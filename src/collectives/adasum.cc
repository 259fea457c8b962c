#include "collectives/adasum.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "reduce/adasum.h"
#include "types/request.h"

namespace ronde::collectives {

namespace {

/// What one call works on at most, in elements; as doubles half a megabyte.
constexpr std::size_t kPiece = std::size_t{64} << 10;

class Adasum final : public Operation {
 public:
  Adasum(int rank, int size, StartOperation start, const Plan& plan)
      : start_(std::move(start)),
        plan_(plan),
        element_(dtype_bytes(plan.dtype)),
        rank_(static_cast<std::size_t>(rank)),
        ranks_(static_cast<std::size_t>(size)),
        left_(ranks_) {
    std::iota(left_.begin(), left_.end(), 0);
    std::size_t all = 0;
    for (const PlanMember& member : plan.members) {
      rows_.push_back(scattered_rows(member.input.elements(), size));
      begins_.push_back(all);
      all += ranks_ * own(rows_.size() - 1);
    }
    // Not set to zero: one call would touch all of it.
    received_ = std::make_unique_for_overwrite<std::byte[]>(all * element_);
    values_ = std::make_unique_for_overwrite<double[]>(all);
    start_exchange();
  }

  Progress advance() override {
    if (operation_) {
      const Progress progress = operation_->advance();
      if (progress != Progress::done) {
        return progress;
      }
      operation_.reset();
      stage_ = next_of(stage_);
      return stage_ == Stage::over ? Progress::done : Progress::again;
    }
    switch (stage_) {
      case Stage::widen: widen_piece(); break;
      case Stage::measure: measure_piece(); break;
      case Stage::combine: combine_piece(); break;
      case Stage::narrow: narrow_piece(); break;
      default: return Progress::done;
    }
    return Progress::again;
  }

  std::vector<int> waiting_for() const override { return operation_ ? operation_->waiting_for() : std::vector<int>{}; }

 private:
  enum class Stage { exchange, widen, measure, tell, combine, narrow, gather, over };

  static Stage next_of(Stage stage) {
    return stage == Stage::exchange ? Stage::widen : stage == Stage::tell ? Stage::combine : Stage::over;
  }

  std::size_t members() const { return plan_.members.size(); }
  std::size_t pairs() const { return left_.size() / 2; }
  /// Elements of this rank's slice of a member.
  std::size_t own(std::size_t member) const { return static_cast<std::size_t>(rows_[member][rank_]); }
  /// Where in received_ and values_ the slice that came from a rank begins, in elements.
  std::size_t place(std::size_t member, std::size_t from) const { return begins_[member] + from * own(member); }
  double* values(std::size_t member, std::size_t from) { return values_.get() + place(member, from); }

  /// Goes through `parts` parts of each member's slice, a piece a call: visit(member, part, begin, count). True with
  /// the last piece.
  template <typename Visit>
  bool next_piece(std::size_t parts, const Visit& visit) {
    const std::size_t member = item_ / parts;
    if (member < members()) {
      const std::size_t count = std::min(kPiece, own(member) - at_);
      visit(member, item_ % parts, at_, count);
      at_ += count;
      if (at_ == own(member)) {
        at_ = 0;
        ++item_;
      }
    }
    if (item_ < parts * members()) {
      return false;
    }
    item_ = 0;
    return true;
  }

  void start_exchange() {
    exchange_.kind = OpKind::alltoall;
    exchange_.dtype = plan_.dtype;
    for (std::size_t m = 0; m < members(); ++m) {
      PlanMember member = plan_.members[m];
      member.input.shape = {member.input.elements()};
      member.output = {
          received_.get() + begins_[m] * element_, plan_.dtype, {static_cast<std::int64_t>(ranks_ * own(m))}, {}};
      exchange_.members.push_back(std::move(member));
      std::vector<std::int64_t> rows;
      for (std::size_t from = 0; from < ranks_; ++from) {
        rows.insert(rows.end(), rows_[m].begin(), rows_[m].end());
      }
      exchange_.rows.push_back(std::move(rows));
    }
    operation_ = start_(exchange_);
  }

  void widen_piece() {
    const bool over = next_piece(ranks_, [&](std::size_t m, std::size_t from, std::size_t begin, std::size_t count) {
      const std::size_t at = place(m, from) + begin;
      reduce::widen(plan_.dtype, received_.get() + at * element_, count, plan_.prescale, values_.get() + at);
    });
    if (over) {
      start_round();
    }
  }

  void start_round() {
    stage_ = Stage::measure;
    products_.assign(members() * pairs(), {});
  }

  void measure_piece() {
    const bool over = next_piece(pairs(), [&](std::size_t m, std::size_t pair, std::size_t begin, std::size_t count) {
      reduce::add_products(values(m, left_[2 * pair]) + begin, values(m, left_[2 * pair + 1]) + begin, count,
                           products_[m * pairs() + pair]);
    });
    if (over) {
      stage_ = Stage::tell;
      start_tell();
    }
  }

  void start_tell() {
    static_assert(sizeof(reduce::Products) == 3 * sizeof(double));
    const auto numbers = static_cast<std::int64_t>(3 * products_.size());
    told_.assign(ranks_ * products_.size(), {});
    tell_ = {};
    tell_.kind = OpKind::allgather;
    tell_.dtype = DType::float64;
    tell_.members.push_back({"products",
                             {products_.data(), DType::float64, {numbers}, {}},
                             {told_.data(), DType::float64, {numbers * static_cast<std::int64_t>(ranks_)}, {}}});
    tell_.rows.emplace_back(ranks_, numbers);
    operation_ = start_(tell_);
  }

  /// Of the whole tensor.
  reduce::Products sum_of(std::size_t product) const {
    reduce::Products sum;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      reduce::add(told_[rank * products_.size() + product], sum);
    }
    return sum;
  }

  void combine_piece() {
    const bool over = next_piece(pairs(), [&](std::size_t m, std::size_t pair, std::size_t begin, std::size_t count) {
      reduce::combine(sum_of(m * pairs() + pair), values(m, left_[2 * pair + 1]) + begin, count,
                      values(m, left_[2 * pair]) + begin);
    });
    if (!over) {
      return;
    }
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < left_.size(); i += 2) {
      left.push_back(left_[i]);
    }
    left_ = std::move(left);
    if (left_.size() > 1) {
      start_round();
    } else {
      stage_ = Stage::narrow;
    }
  }

  /// Into the part of received_ that the slice came in.
  void narrow_piece() {
    const bool over = next_piece(1, [&](std::size_t m, std::size_t, std::size_t begin, std::size_t count) {
      const std::size_t at = place(m, left_.front()) + begin;
      reduce::narrow(plan_.dtype, values_.get() + at, count, plan_.postscale, received_.get() + at * element_);
    });
    if (over) {
      stage_ = Stage::gather;
      start_gather();
    }
  }

  void start_gather() {
    gather_.kind = OpKind::allgather;
    gather_.dtype = plan_.dtype;
    for (std::size_t m = 0; m < members(); ++m) {
      PlanMember member = plan_.members[m];
      member.input = {
          received_.get() + place(m, left_.front()) * element_, plan_.dtype, {static_cast<std::int64_t>(own(m))}, {}};
      member.output.shape = {member.output.elements()};
      gather_.members.push_back(std::move(member));
    }
    gather_.rows = rows_;
    operation_ = start_(gather_);
  }

  const StartOperation start_;
  const Plan& plan_;
  const std::size_t element_;
  const std::size_t rank_;
  const std::size_t ranks_;
  std::vector<std::size_t> left_;                ///< the ranks whose vectors this round combines
  std::vector<std::vector<std::int64_t>> rows_;  ///< by member: the elements of each rank's slice
  std::vector<std::size_t> begins_;              ///< by member: where its slices begin, in elements
  std::unique_ptr<std::byte[]> received_;
  std::unique_ptr<double[]> values_;
  std::vector<reduce::Products> products_;  ///< of this slice, by member and pair
  std::vector<reduce::Products> told_;      ///< everybody's
  Plan exchange_;
  Plan tell_;
  Plan gather_;
  std::unique_ptr<Operation> operation_;
  Stage stage_ = Stage::exchange;
  std::size_t item_ = 0;  ///< of next_piece()
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<Operation> adasum_allreduce(int rank, int size, StartOperation start, const Plan& plan) {
  return std::make_unique<Adasum>(rank, size, std::move(start), plan);
}

}  // namespace ronde::collectives
