// Part of <ronde/torch.hpp>: averages gradients over the ranks while a backward pass computes others.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ronde/torch_evaluations.hpp>
#include <ronde/torch_gradients.hpp>

namespace ronde {
inline namespace v0 {
namespace torch {

/// Puts a step that averages gradients in place of an optimizer's own. A gradient is reduced in place as soon as a
/// backward pass has accumulated it, so that most of the time that takes is hidden behind the rest of the pass.
///
/// Every rank makes one with parameters of the same names and shapes, and steps equally often. A parameter that has no
/// gradient on this rank counts as zeros where another rank has one; where none has, it stays without, and is not
/// stepped. A parameter that stands in the optimizer twice is reduced once; a pass that comes to one that another
/// DistributedOptimizer has, too, is refused (Code::invalid_argument, thrown by backward()). One thread at a time, but
/// for the threads of autograd.
///
/// What the program has put in a gradient's place, a part of a tensor of its own say, stays there, and is reduced where
/// it lies.
///
/// Gradients that are averaged are so once: a pass that would add to them, between synchronize() and step(), is refused
/// (Code::invalid_argument, thrown by backward()), and step() does not average them again. A pass may be dropped,
/// before or after synchronize(), by zero_grad() on all ranks. Where ranks have dropped different numbers of passes, or
/// one has put another tensor in the place of a gradient that is being averaged, step() throws on all of them.
class DistributedOptimizer {
 public:
  /// `optimizer`: with all its parameters; it must outlive this. Those that do not require gradients are left out.
  /// Throws Code::invalid_argument for options that cannot be meant.
  explicit DistributedOptimizer(::torch::optim::Optimizer& optimizer, DistributedOptimizerOptions options = {})
      : optimizer_(optimizer), gradients_(std::make_shared<detail::Gradients>(std::move(options))) {
    const DistributedOptimizerOptions& all = gradients_->options;
    if (all.backward_passes_per_step < 1 || all.prescale == 0 || all.postscale == 0) {
      throw Error(Code::invalid_argument,
                  "backward_passes_per_step must be at least 1, and prescale and postscale must not be 0");
    }
    std::unordered_map<const void*, std::string> names;
    for (const auto& item : all.named_parameters) {
      names[item.value().unsafeGetTensorImpl()] = item.key();
    }
    for (const auto& group : optimizer_.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const void* const id = parameter.unsafeGetTensorImpl();
        const auto found = names.find(id);
        const std::string position = std::to_string(parameters_.size());
        const std::string name = found != names.end() ? found->second : names.empty() ? position : "~" + position;
        parameters_.push_back(id);
        if (parameter.requires_grad() && reduced_.insert(id).second) {
          gradients_->add(parameter, name);
        }
      }
    }
  }
  /// What is under way is given up: gradients of a pass without a step are of no use. The parameters' later backward
  /// passes reduce nothing. Ranks end their optimizers at the same places of the program, as they make them.
  ~DistributedOptimizer() { gradients_->end(); }
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// As the optimizer's. Passes since the last step are dropped, which every rank does.
  void zero_grad(bool set_to_none = true) {
    gradients_->hook_again();
    gradients_->drop_pass();
    optimizer_.zero_grad(set_to_none);
    evaluations_.note_zeroed();
  }

  /// Returns when every gradient is the reduced one: to clip them, say, before step(). Throws the error of the first
  /// that failed; then all of the step are given up, and the gradients are of no use.
  /// Called again it reduces what the program has set since; that is refused (Code::invalid_argument) where what was
  /// reduced before, and clipped say, would become another by it.
  void synchronize() {
    check_parameters();
    if (!gradients_->has_set()) {
      gradients_->synchronize();
    } else if (is_idempotent()) {
      gradients_->synchronize_set();
    } else {
      throw Error(Code::invalid_argument,
                  "synchronize(): gradients that were reduced already were changed since, and whether they are new "
                  "cannot be told; with sums, products and scales, and while a rank has joined, that matters. Call "
                  "step(), or zero_grad() before the next ones");
    }
  }

  /// synchronize(), unless that was called since the last pass; then the optimizer's step.
  void step() {
    check_parameters();
    gradients_->synchronize();
    optimizer_.step();
    gradients_->end_step();
    evaluations_.note_reduced();
  }
  /// Of optimizers that evaluate the model themselves (LBFGS): each loss that `closure` returns is added up or averaged
  /// over the ranks, and scaled, as the gradients are, so that all take the same decisions by it. With other operations
  /// than these two it is averaged. So are gradients that `closure` sets without a backward pass; those that it leaves
  /// as they were, as where it computes the loss only, are not added up again, nor averaged while a rank has joined.
  /// Gradients of a pass before step() are reduced first. Returns the last step's loss. Throws Code::invalid_argument
  /// if nobody can say whether gradients are to be reduced.
  at::Tensor step(const std::function<at::Tensor()>& closure) {
    check_parameters();
    const bool is_behind_pass = any_of(gradients_->reached());
    if (is_behind_pass) {
      gradients_->synchronize();
    }
    evaluations_.begin_step(is_behind_pass || gradients_->is_synchronized(), is_idempotent());
    const at::Tensor loss = optimizer_.step([this, &closure] {
      const at::Tensor own = evaluate(closure);
      return allreduce(own, loss_options());
    });
    gradients_->end_step();
    evaluations_.end_step(gradients_->current());
    return loss;
  }

  ::torch::optim::Optimizer& optimizer() const { return optimizer_; }

 private:
  at::Tensor evaluate(const std::function<at::Tensor()>& closure) {
    const std::uint64_t before = gradients_->synchronizations();
    evaluations_.begin(gradients_->current());
    if (!evaluations_.is_idempotent()) {
      gradients_->look_at_passes(
          [this](std::size_t index, const at::Tensor& gradient) { evaluations_.note_pass(index, gradient); });
    }
    const std::shared_ptr<void> end(nullptr, [this](void*) { gradients_->look_at_passes({}); });
    const at::Tensor own = closure();
    if (gradients_->synchronizations() != before) {
      gradients_->synchronize();
      evaluations_.note_synchronized();
    } else if (are_new(evaluations_.look(gradients_->current(), gradients_->reached()))) {
      gradients_->synchronize_set();
    }
    return own;
  }
  /// Whether some rank has gradients to be reduced. Throws Code::invalid_argument on all ranks alike where some rank
  /// cannot tell, or would have its sums reduced once more. Collective unless nothing is looked at.
  bool are_new(const detail::Found& found) {
    if (evaluations_.is_idempotent()) {
      return found.is_new;
    }
    const auto any = gradients_->any_rank_says({found.is_new, found.are_left, !found.refusal.empty()});
    if (any[2] || (any[0] && any[1])) {
      gradients_->give_up_pass();
      throw detail::Evaluations::refused(
          !found.refusal.empty() ? found.refusal
          : any[2]               ? "another rank refuses what its closure has done to gradients"
                                 : "the closure has computed some gradients anew, and left others that were reduced "
                                   "already, on some rank");
    }
    return any[0];
  }
  static bool any_of(const std::vector<bool>& reached) {
    return std::find(reached.begin(), reached.end(), true) != reached.end();
  }
  /// Whether to reduce what was reduced changes nothing. Collective with averages.
  bool is_idempotent() const {
    const DistributedOptimizerOptions& all = gradients_->options;
    if (all.prescale * all.postscale != 1) {
      return false;
    }
    if (all.group.id == 0 && size(all.engine) == 1) {
      return true;
    }
    return all.op == Op::average ? !gradients_->has_anyone_joined() : all.op != Op::sum && all.op != Op::product;
  }

  /// Its name is a view of this object's.
  AllreduceOptions loss_options() const {
    const DistributedOptimizerOptions& all = gradients_->options;
    AllreduceOptions loss{.name = loss_name_, .timeout_s = all.timeout_s, .engine = all.engine, .group = all.group};
    if (all.op == Op::sum || all.op == Op::average) {
      loss.op = all.op;
      loss.prescale = all.prescale;
      loss.postscale = all.postscale;
    }
    return loss;
  }

  /// What came to the optimizer later, or requires a gradient since, has no hook: its gradient would be this rank's
  /// alone.
  void check_parameters() {
    std::size_t position = 0;
    for (const auto& group : optimizer_.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const void* const id = parameter.unsafeGetTensorImpl();
        const bool is_known = position < parameters_.size() && parameters_[position] == id;
        if (!is_known || (parameter.requires_grad() && reduced_.count(id) == 0)) {
          throw Error(Code::invalid_argument,
                      "parameter " + std::to_string(position) +
                          " of the optimizer was another, or required no gradient, when its DistributedOptimizer was "
                          "made: make a new one");
        }
        ++position;
      }
    }
    if (position != parameters_.size()) {
      throw Error(Code::invalid_argument, "the optimizer has " + std::to_string(position) + " parameters, and had " +
                                              std::to_string(parameters_.size()) +
                                              " when its DistributedOptimizer was made: make a new one");
    }
    gradients_->hook_again();
  }

  ::torch::optim::Optimizer& optimizer_;
  const std::shared_ptr<detail::Gradients> gradients_;
  detail::Evaluations evaluations_;
  const std::string loss_name_ = gradients_->prefix() + "~loss";
  std::vector<const void*> parameters_;      ///< the optimizer's, by identity, in its order
  std::unordered_set<const void*> reduced_;  ///< those that have a hook
};

}  // namespace torch
}  // namespace v0
}  // namespace ronde
