// Part of <ronde/torch.hpp>: the gradients of an optimizer in the step under way. Each is reduced in place as soon as a
// backward pass has accumulated it; at the end of the step the ranks tell each other what they have begun.
#pragma once

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ronde/torch_names.hpp>
#include <ronde/torch_operations.hpp>
#include <ronde/torch_parameters.hpp>

namespace ronde {
inline namespace v0 {
namespace torch {

struct DistributedOptimizerOptions {
  /// By which names ranks meet, as a module's named_parameters() gives them; those that are not in it go by their
  /// position among the optimizer's.
  ::torch::OrderedDict<std::string, at::Tensor> named_parameters = ::torch::OrderedDict<std::string, at::Tensor>();
  Op op = Op::average;
  double prescale = 1;               ///< of each gradient, before it is reduced; not 0
  double postscale = 1;              ///< of each reduced one; not 0
  int backward_passes_per_step = 1;  ///< gradients are reduced after so many, accumulated
  std::string prefix =
      "gradient";        ///< of the names under which ranks meet; with a number behind it while another has it
  double timeout_s = 0;  ///< 0: the engine's
  const Engine* engine = nullptr;
  Group group = {};
};

namespace detail {

/// Used by one thread at a time and by the threads of autograd; hooks may outlive the optimizer whose gradients these
/// are.
class Gradients : public std::enable_shared_from_this<Gradients> {
 public:
  explicit Gradients(DistributedOptimizerOptions all)
      : options(std::move(all)), names_(options.engine, options.group, options.prefix) {}

  const DistributedOptimizerOptions options;

  /// Requires: the parameter requires a gradient, and is a new one. The object is owned by a shared pointer.
  void add(const at::Tensor& parameter, const std::string& name) {
    gradients_.emplace_back();
    gradients_.back().parameter = parameter;
    own_.add(parameter);
    gradients_.back().name = names_.of(name);
    for (const char each : name + '\n') {
      hash_ = (hash_ ^ static_cast<unsigned char>(each)) * 16777619U;  // FNV-1a
    }
    hook(gradients_.size() - 1);
  }

  /// No other optimizer's in this process, as long as this one is not over.
  const std::string& prefix() const { return names_.prefix(); }

  /// A parameter that was given another type or device has lost its hook, and a pass since then was not noticed.
  void hook_again() {
    for (std::size_t index = 0; index < gradients_.size(); ++index) {
      const at::Tensor& parameter = gradients_[index].parameter;
      if (parameter.requires_grad() &&
          ::torch::autograd::impl::grad_accumulator(parameter).get() != gradients_[index].accumulator) {
        hook(index);
        const std::lock_guard lock(mutex_);
        is_synchronized_ = false;
      }
    }
  }

  /// Returns when every gradient is the reduced one. Throws the error of the first that failed, and all are given up.
  void synchronize() {
    const std::lock_guard lock(mutex_);
    ++synchronizations_;
    if (is_synchronized_ && holds_averages()) {
      return;
    }
    try {
      finish();
    } catch (...) {
      give_up();
      throw;
    }
    forget();
    is_synchronized_ = true;
  }

  /// Before the program's own call of synchronize(): whether it has put others in the places of averaged gradients
  /// since the last one, or written to them.
  bool has_set() {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (const Gradient& each : gradients_) {
      const at::Tensor& gradient = each.parameter.grad();
      any = any || (is_synchronized_ && each.reduced.defined() && gradient.defined() &&
                    (!gradient.is_same(each.reduced) || version_of(gradient) != each.version));
    }
    return any;
  }
  /// The same of gradients that were set without a pass in the place of averaged ones.
  void synchronize_set() {
    {
      const std::lock_guard lock(mutex_);
      if (is_synchronized_) {
        forget_averages();
      }
    }
    synchronize();
  }
  /// How often it was called.
  std::uint64_t synchronizations() {
    const std::lock_guard lock(mutex_);
    return synchronizations_;
  }
  /// Which a pass has reached since the last synchronize().
  std::vector<bool> reached() {
    const std::lock_guard lock(mutex_);
    std::vector<bool> all;
    for (const Gradient& each : gradients_) {
      all.push_back(each.work.has_value() || each.passes > 0);
    }
    return all;
  }
  /// `look` is called before the first pass adds to a gradient, on threads of autograd. Empty: nothing is.
  void look_at_passes(std::function<void(std::size_t index, const at::Tensor& gradient)> look) {
    const std::lock_guard lock(mutex_);
    look_at_pass_ = std::move(look);
  }
  /// synchronize() would return at once.
  bool is_synchronized() {
    const std::lock_guard lock(mutex_);
    return is_synchronized_ && holds_averages();
  }
  /// Whether a rank of the group has joined: it adds nothing to averages, and counts. Collective.
  bool has_anyone_joined() const {
    const at::Tensor present = at::ones({1}, at::kDouble);
    tell(present, "~joined", Op::average);
    return present.item<double>() < 1 - 1e-7;  // of n ranks it is then 1 - 1 / n or less
  }
  /// Of each whether it is true on any rank. Collective.
  std::array<bool, 3> any_rank_says(const std::array<bool, 3>& here) const {
    const at::Tensor any = at::zeros({3}, at::kInt);
    auto* const said = any.data_ptr<std::int32_t>();
    std::copy(here.begin(), here.end(), said);
    tell(any, "~evaluation", Op::max);
    return {said[0] > 0, said[1] > 0, said[2] > 0};
  }
  /// What is under way is given up, on all ranks, whatever each has begun.
  void give_up_pass() {
    const std::lock_guard lock(mutex_);
    give_up();
  }
  /// The parameters' gradients as they are.
  std::vector<at::Tensor> current() {
    const std::lock_guard lock(mutex_);
    std::vector<at::Tensor> all;
    for (const Gradient& each : gradients_) {
      all.push_back(each.parameter.grad());
    }
    return all;
  }

  /// The next pass begins another step.
  void end_step() {
    const std::lock_guard lock(mutex_);
    forget_averages();
  }

  /// What is under way is given up.
  void drop_pass() {
    const std::lock_guard lock(mutex_);
    drop();
  }

  /// Hooks do nothing any more. What is under way is given up.
  void end() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    drop();
    names_.release();
    own_.release();
  }

 private:
  /// Of one parameter, in the step under way.
  struct Gradient {
    at::Tensor parameter;
    std::string name;
    const void* accumulator = nullptr;  ///< autograd's node that has the hook
    std::function<void()> keeps;        ///< it; its type differs between versions of libtorch
    int passes = 0;
    std::optional<Work> work = {};  ///< its reduction
    at::Tensor reduced = {};        ///< what is reduced, or was since the last step; undefined before
    at::Tensor place = {};          ///< where it belongs, if it is reduced elsewhere: in memory that others hold
    const void* before = nullptr;   ///< the gradient to which the first pass of the step adds; null: there is none
    std::int64_t version = 0;       ///< of that when it had been reduced
  };

  /// What a rank says of a gradient. The greatest is what all go by.
  enum Said : std::int32_t { kNone, kHas, kReplaced };

  /// Before autograd adds to a gradient.
  class Before : public ::torch::autograd::FunctionPreHook {
   public:
    Before(std::weak_ptr<Gradients> gradients, std::size_t index) : gradients_(std::move(gradients)), index_(index) {}
    ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& computed) override {
      if (const std::shared_ptr<Gradients> alive = gradients_.lock()) {
        alive->check_pass(index_);
      }
      return computed;
    }

   private:
    const std::weak_ptr<Gradients> gradients_;
    const std::size_t index_;
  };

  void hook(std::size_t index) {
    Gradient& each = gradients_[index];
    auto accumulator = ::torch::autograd::impl::grad_accumulator(each.parameter);
    accumulator->add_pre_hook(std::make_unique<Before>(weak_from_this(), index));
    accumulator->add_post_hook(std::make_unique<::torch::autograd::utils::LambdaPostHook>(
        [gradients = weak_from_this(), index](const std::vector<at::Tensor>& outputs,
                                              const std::vector<at::Tensor>& computed) {
          if (const std::shared_ptr<Gradients> alive = gradients.lock()) {
            alive->accumulated(index, computed[0]);
          }
          return outputs;
        }));
    each.accumulator = accumulator.get();
    // A parameter holds its accumulator weakly, and would get one without the hook.
    each.keeps = [accumulator] {};
  }

  /// Throws where a pass must not add to the gradient, which is as it was. On a thread of autograd; what it throws,
  /// backward() throws.
  void check_pass(std::size_t index) {
    const std::lock_guard lock(mutex_);
    if (is_over_) {
      return;
    }
    Gradient& each = gradients_[index];
    if (OwnParameters::is_shared(each.parameter)) {
      throw Error(Code::invalid_argument,
                  "'" + each.name +
                      "': another DistributedOptimizer has this parameter, too, and both would reduce its gradient. "
                      "End the one that is not used any more, or let one optimizer have each parameter",
                  each.name);
    }
    if (each.work || each.passes >= options.backward_passes_per_step) {
      throw Error(Code::invalid_argument,
                  "'" + each.name + "' is computed more often than backward_passes_per_step (" +
                      std::to_string(options.backward_passes_per_step) +
                      ") before step(): call step() or synchronize() in between, or raise it",
                  each.name);
    }
    if (is_synchronized_ && holds_averages()) {
      throw Error(Code::invalid_argument,
                  "a backward pass computes '" + each.name +
                      "' after synchronize() had averaged the gradients: call step(), or zero_grad() of the "
                      "DistributedOptimizer, before the next pass",
                  each.name);
    }
    if (each.passes == 0) {
      each.before = impl_of(each.parameter.grad());
      if (look_at_pass_) {
        look_at_pass_(index, each.parameter.grad());
      }
    }
    is_synchronized_ = false;
  }

  /// After a backward pass has accumulated it. `computed`: what was added to the gradient, or has become it.
  void accumulated(std::size_t index, const at::Tensor& computed) {
    const std::lock_guard lock(mutex_);
    Gradient& each = gradients_[index];
    at::Tensor& gradient = each.parameter.mutable_grad();
    // A function may give a parameter that does not matter no gradient: that of other ranks is then added to zeros.
    if (!is_over_ && ++each.passes == options.backward_passes_per_step && gradient.defined()) {
      if (each.before != nullptr && each.before == impl_of(gradient)) {
        begin_in_place(each);
        return;
      }
      const bool is_taken_over = computed.defined() && computed.is_alias_of(gradient);
      if ((is_taken_over && computed.use_count() > 1) || is_held(gradient, is_taken_over ? 2 : 1)) {
        gradient = gradient.clone();  // a pass has handed on what is another parameter's, or the program's
      }
      begin(each, gradient);
    }
  }

  /// A gradient is reduced where it lies, so others must not have that memory: another parameter, or the program.
  /// `holders`: of its memory, if there are no others.
  static bool is_held(const at::Tensor& gradient, std::size_t holders) {
    return gradient.use_count() > 1 ||
           (gradient.layout() == at::kStrided && gradient.storage().use_count() > holders);
  }

  /// What the program has put there stays the gradient, whatever else holds it: in memory of its own, one for all
  /// gradients say, the program zeroes them.
  void begin_in_place(Gradient& each) const {
    const at::Tensor& gradient = each.parameter.grad();
    if (is_held(gradient, 1)) {
      each.place = gradient;
      begin(each, gradient.detach().clone());
    } else {
      begin(each, gradient);
    }
  }

  static const void* impl_of(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.unsafeGetTensorImpl() : nullptr;
  }

  static std::int64_t version_of(const at::Tensor& gradient) {
    return gradient.is_inference() ? 0 : static_cast<std::int64_t>(gradient._version());
  }

  /// Whether some gradient is left of those that synchronize() has averaged. None is once a module or the optimizer
  /// itself has zeroed them. Who clips them may have put others in their places.
  bool holds_averages() const {
    for (const Gradient& each : gradients_) {
      if (each.reduced.defined() && each.parameter.grad().defined()) {
        return true;
      }
    }
    return false;
  }

  bool is_alone() const { return options.group.id == 0 && size(options.engine) == 1; }

  void forget_averages() {
    is_synchronized_ = false;
    for (Gradient& each : gradients_) {
      each.reduced.reset();
    }
  }

  /// Waits until the engine touches nothing any more.
  void forget() {
    for (Gradient& each : gradients_) {
      each.work.reset();
      each.place.reset();
      each.passes = 0;
    }
  }

  void drop() {
    forget_averages();
    for (const Gradient& each : gradients_) {
      if (each.work) {
        give_up();
        return;
      }
    }
    forget();
  }

  /// What this rank has begun others may never begin, or have begun already: it must not meet what comes later.
  void give_up() {
    for (const Gradient& each : gradients_) {
      if (each.work) {
        each.work->cancel();
      }
    }
    forget();
    forget_averages();
    names_.set_generation(names_.generation() + 1);
  }

  void begin(Gradient& each, const at::Tensor& gradient) const {
    const std::string name = names_.now(each.name);
    each.work.emplace(allreduce_async_(gradient, {.name = name,
                                                  .op = options.op,
                                                  .prescale = options.prescale,
                                                  .postscale = options.postscale,
                                                  .timeout_s = options.timeout_s,
                                                  .engine = options.engine,
                                                  .group = options.group}));
    each.reduced = gradient;
  }

  /// Those that no pass has completed are reduced as they are. Ranks tell each other which gradients any of them has:
  /// one that none has was reduced from zeros, which is no gradient.
  void finish() {
    const at::NoGradGuard no_grad;
    const auto count = static_cast<std::int64_t>(gradients_.size());
    at::Tensor told = at::zeros({count + 4}, at::kInt);
    auto* const said = told.data_ptr<std::int32_t>();
    for (std::int64_t index = 0; index < count; ++index) {
      Gradient& each = gradients_[static_cast<std::size_t>(index)];
      at::Tensor& gradient = each.parameter.mutable_grad();
      if (!each.work) {
        said[index] = gradient.defined() ? kHas : kNone;
        if (gradient.defined()) {
          begin_in_place(each);
        } else {
          begin(each, at::zeros_like(each.parameter));
        }
      } else {
        said[index] = gradient.is_same(each.place.defined() ? each.place : each.reduced) ? kHas : kReplaced;
      }
    }
    const auto hash = static_cast<std::int32_t>(hash_ >> 1U);
    said[count] = names_.generation();  // of each the greatest comes back
    said[count + 1] = -names_.generation();
    said[count + 2] = hash;
    said[count + 3] = -hash;
    tell(told, "~present", Op::max);  // the greatest of what any rank says
    check_said(said, static_cast<std::size_t>(count));
    for (std::int64_t index = 0; index < count; ++index) {
      Gradient& each = gradients_[static_cast<std::size_t>(index)];
      each.work->wait();
      if (each.place.defined()) {
        each.place.copy_(each.reduced);
        each.reduced = each.place;
      }
      if (said[index] != kNone) {
        if (each.reduced.requires_grad() && !is_alone()) {
          each.reduced = each.reduced.detach();  // its graph is this rank's alone
        }
        each.parameter.mutable_grad() = each.reduced;
        each.version = version_of(each.reduced);
      } else {
        each.reduced.reset();
      }
    }
  }

  /// All-reduces something beside the gradients. A rank that has missed a step hears, once, that the others have waited
  /// for it in vain: they are a step further, and it asks again.
  void tell(const at::Tensor& told, const char* what, Op op) const {
    const std::string name = names_.prefix() + what;
    while (true) {
      try {
        allreduce_(told, {.name = name,
                          .op = op,
                          .timeout_s = options.timeout_s,
                          .engine = options.engine,
                          .group = options.group});
        return;
      } catch (const Error& error) {
        if (error.code() != Code::timed_out || error.failed_rank() != rank(options.engine)) {
          throw;
        }
      }
    }
  }

  /// Throws, on all ranks alike, where they have not begun the same.
  void check_said(const std::int32_t* said, std::size_t count) {
    if (said[count + 2] != -said[count + 3]) {
      throw Error(Code::mismatch,
                  "the optimizers of the ranks average gradients of different parameters: every rank makes its "
                  "DistributedOptimizer with parameters of the same names that require gradients, in the same order");
    }
    if (said[count] != -said[count + 1]) {
      names_.set_generation(said[count]);  // all give up, and go on alike
      throw Error(
          Code::invalid_argument,
          "one rank has dropped a backward pass (zero_grad() before step(), or a step that failed) that another "
          "one steps with: every rank drops it, or none");
    }
    for (std::size_t index = 0; index < count; ++index) {
      if (said[index] == kReplaced) {
        throw Error(Code::invalid_argument,
                    "'" + gradients_[index].name +
                        "' was replaced, on some rank, while it was averaged: drop a pass by zero_grad() of the "
                        "DistributedOptimizer, and change gradients behind synchronize()",
                    gradients_[index].name);
      }
    }
  }

  std::mutex mutex_;  ///< guards what follows
  std::vector<Gradient> gradients_;
  OwnParameters own_;
  GradientNames names_;
  std::uint32_t hash_ = 2166136261U;  ///< of the parameters' names
  bool is_synchronized_ = false;      ///< all gradients are averaged, and no pass has come since
  bool is_over_ = false;
  std::uint64_t synchronizations_ = 0;
  std::function<void(std::size_t, const at::Tensor&)> look_at_pass_;
};

}  // namespace detail

}  // namespace torch
}  // namespace v0
}  // namespace ronde
