#include "collectives/single_rank.h"

#include <algorithm>

#include "collectives/budget.h"
#include "collectives/gather_list.h"
#include "reduce/neutral.h"
#include "reduce/reduce.h"

namespace ronde::collectives {

namespace {

/// Works through the list in pieces of the budget; these are whole elements, whose sizes are powers of two.
class SingleRank final : public Operation {
 public:
  SingleRank(const Plan& plan, bool reduces) : plan_(plan), list_(plan), reduces_(reduces) {}

  Progress advance() override {
    const std::size_t end = std::min(at_ + kBudgetBytes, list_.bytes());
    if (reduces_) {
      reduce_piece(at_, end);
    } else {
      list_.carry_over(at_, end);
    }
    at_ = end;
    return at_ == list_.bytes() ? Progress::done : Progress::again;
  }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  void reduce_piece(std::size_t begin, std::size_t end) {
    // One rank's values are only scaled, by Adasum too.
    const ReduceOp op = plan_.reduce_op == ReduceOp::adasum ? ReduceOp::sum : plan_.reduce_op;
    const reduce::Reduction reduction{plan_.dtype, op, plan_.prescale, plan_.postscale};
    const std::size_t element = dtype_bytes(plan_.dtype);
    list_.for_each(begin, end, [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t) {
      const void* const inputs[] = {from};
      reduce::reduce(reduction, inputs, bytes / element, to);
    });
  }

  const Plan& plan_;
  GatherList list_;
  const bool reduces_;
  std::size_t at_ = 0;
};

class Neutral final : public Operation {
 public:
  explicit Neutral(const Plan& plan) : plan_(plan) {}

  Progress advance() override {
    Budget budget;
    while (member_ < plan_.members.size()) {
      const Tensor& output = plan_.members[member_].output;
      const std::size_t part = std::min(kBudgetBytes, output.bytes() - done_);
      if (!budget.allows(part)) {
        return Progress::again;
      }
      reduce::fill_empty(plan_.dtype, plan_.reduce_op, {static_cast<std::byte*>(output.data) + done_, part});
      budget.spend(part);
      done_ += part;
      if (done_ == output.bytes()) {
        ++member_;
        done_ = 0;
      }
    }
    return Progress::done;
  }
  std::vector<int> waiting_for() const override { return {}; }

 private:
  const Plan& plan_;
  std::size_t member_ = 0;
  std::size_t done_ = 0;  ///< bytes of the member
};

}  // namespace

std::unique_ptr<Operation> allreduce_of_single_rank(const Plan& plan) {
  return std::make_unique<SingleRank>(plan, true);
}

std::unique_ptr<Operation> copy_of_single_rank(const Plan& plan) { return std::make_unique<SingleRank>(plan, false); }

std::unique_ptr<Operation> exscan_of_single_rank(const Plan& plan) { return std::make_unique<Neutral>(plan); }

}  // namespace ronde::collectives
