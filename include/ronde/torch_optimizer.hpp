// Part of <ronde/torch.hpp>: averages gradients over the ranks while a backward pass computes others.
#pragma once

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ronde/torch_operations.hpp>

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
  std::string prefix = "gradient";   ///< of the names under which ranks meet
  double timeout_s = 0;              ///< 0: the engine's
  const Engine* engine = nullptr;
  Group group = {};
};

/// Puts a step that averages gradients in place of an optimizer's own. A gradient is reduced in place as soon as a
/// backward pass has accumulated it, so that most of the time that takes is hidden behind the rest of the pass.
///
/// Every rank makes one with parameters of the same names and shapes, and steps equally often. A parameter that has no
/// gradient on this rank counts as zeros where another rank has one; where none has, it stays without, and is not
/// stepped. A parameter that stands in the optimizer twice is reduced once. One thread at a time, but for the threads
/// of autograd.
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
      : optimizer_(optimizer), shared_(std::make_shared<Shared>(std::move(options))) {
    const DistributedOptimizerOptions& all = shared_->options;
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
        const std::string name = found == names.end() ? std::to_string(parameters_.size()) : found->second;
        parameters_.push_back(id);
        if (parameter.requires_grad() && reduced_.insert(id).second) {
          shared_->gradients.emplace_back();
          shared_->gradients.back().parameter = parameter;
          shared_->gradients.back().name = all.prefix + "." + name;
        }
      }
    }
    for (std::size_t index = 0; index < shared_->gradients.size(); ++index) {
      hook(index);
    }
  }
  /// Waits for what is under way. The parameters' later backward passes reduce nothing.
  ~DistributedOptimizer() { shared_->drop_all(); }
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// As the optimizer's. Passes since the last step are dropped, those that are being averaged once they are: every
  /// rank drops them. Throws the error of the first that failed.
  void zero_grad(bool set_to_none = true) {
    shared_->drop_pass();
    optimizer_.zero_grad(set_to_none);
  }

  /// Returns when every gradient is the reduced one: to clip them, say, before step(). Throws the error of the first
  /// that failed; then all of the step are given up, and the gradients are of no use.
  void synchronize() {
    check_parameters();
    shared_->synchronize();
  }

  /// synchronize(), unless that was called since the last pass; then the optimizer's step.
  void step() {
    synchronize();
    optimizer_.step();
    shared_->end_step();
  }
  /// Of optimizers that evaluate the model themselves (LBFGS): each loss that `closure` returns is added up or averaged
  /// over the ranks, and scaled, as the gradients are, so that all take the same decisions by it. With other operations
  /// than these two it is averaged. Returns the last step's loss.
  at::Tensor step(const std::function<at::Tensor()>& closure) {
    check_parameters();
    const at::Tensor loss = optimizer_.step([this, &closure] {
      const at::Tensor own = closure();
      shared_->synchronize();
      return allreduce(own, loss_options());
    });
    shared_->end_step();
    return loss;
  }

  ::torch::optim::Optimizer& optimizer() const { return optimizer_; }

 private:
  /// Of one parameter, in the step under way.
  struct Gradient {
    at::Tensor parameter;
    std::string name;
    int passes = 0;
    std::optional<Work> work = {};  ///< its reduction
    at::Tensor reduced = {};        ///< what is reduced, or was since the last step; undefined before
  };

  /// What a rank says of a gradient. The greatest is what all go by.
  enum Said : std::uint8_t { kNone, kHas, kReplaced };

  /// What hooks, which may outlive the optimizer, reach.
  struct Shared {
    explicit Shared(DistributedOptimizerOptions all) : options(std::move(all)) {}

    /// After a backward pass has accumulated it; on a thread of autograd. What it throws, backward() throws.
    void accumulated(std::size_t index) {
      const std::lock_guard lock(mutex);
      if (is_over) {
        return;
      }
      Gradient& each = gradients[index];
      if (each.work || each.passes >= options.backward_passes_per_step) {
        throw Error(Code::invalid_argument,
                    "'" + each.name + "' was computed more often than backward_passes_per_step (" +
                        std::to_string(options.backward_passes_per_step) +
                        ") before step(): call step() or synchronize() in between, or raise it",
                    each.name);
      }
      if (each.reduced.defined() && each.reduced.is_same(each.parameter.mutable_grad())) {
        throw Error(Code::invalid_argument,
                    "a backward pass has added to '" + each.name +
                        "', which synchronize() had averaged: call step(), or zero_grad() of the DistributedOptimizer, "
                        "before the next pass",
                    each.name);
      }
      is_synchronized = false;
      // A function may give a parameter that does not matter no gradient: that of other ranks is then added to zeros.
      if (++each.passes == options.backward_passes_per_step && each.parameter.mutable_grad().defined()) {
        begin(each, each.parameter.mutable_grad());
      }
    }

    void synchronize() {
      const std::lock_guard lock(mutex);
      if (is_synchronized && !is_zeroed()) {
        return;
      }
      try {
        finish();
      } catch (...) {
        for (Gradient& each : gradients) {
          if (each.work) {
            each.work->cancel();  // other ranks may never begin it
          }
          each.reduced.reset();
        }
        forget();
        throw;
      }
      forget();
      is_synchronized = true;
    }

    /// The next pass begins another step.
    void end_step() {
      const std::lock_guard lock(mutex);
      is_synchronized = false;
      for (Gradient& each : gradients) {
        each.reduced.reset();
      }
    }

    void drop_pass() {
      end_step();
      const std::lock_guard lock(mutex);
      bool is_under_way = false;
      try {
        for (Gradient& each : gradients) {
          if (each.work) {
            is_under_way = true;
            each.work->wait();
          }
        }
      } catch (...) {
        forget();
        throw;
      }
      dropped += is_under_way ? 1 : 0;
      forget();
    }

    /// Whether what was averaged is gone, as by zero_grad() of the module or of the optimizer itself: then a rank
    /// without data, which makes no pass, is not averaged either.
    bool is_zeroed() const {
      bool is_any = false;
      for (const Gradient& each : gradients) {
        is_any = is_any || each.reduced.defined();
        if (each.reduced.defined() && each.parameter.grad().defined()) {
          return false;
        }
      }
      return is_any;
    }

    void drop_all() {
      const std::lock_guard lock(mutex);
      is_over = true;
      forget();
    }

    /// Waits for what is under way.
    void forget() {
      for (Gradient& each : gradients) {
        each.work.reset();
        each.passes = 0;
      }
    }

    void begin(Gradient& each, const at::Tensor& gradient) const {
      each.work.emplace(allreduce_async_(gradient, {.name = each.name,
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
      const auto count = static_cast<std::int64_t>(gradients.size());
      at::Tensor told = at::zeros({count + 2}, at::kByte);
      auto* const said = told.data_ptr<std::uint8_t>();
      for (std::int64_t index = 0; index < count; ++index) {
        Gradient& each = gradients[static_cast<std::size_t>(index)];
        const at::Tensor& gradient = each.parameter.mutable_grad();
        if (!each.work) {
          said[index] = gradient.defined() ? kHas : kNone;
          begin(each, gradient.defined() ? gradient : at::zeros_like(each.parameter));
        } else {
          said[index] = gradient.is_same(each.reduced) ? kHas : kReplaced;
        }
      }
      // The greatest of both over the ranks are equal to a rank's own where all have dropped as many.
      said[count] = dropped;
      said[count + 1] = static_cast<std::uint8_t>(~dropped);
      const std::string name = options.prefix + ".present";
      allreduce_(told, {.name = name,
                        .op = Op::max,
                        .timeout_s = options.timeout_s,
                        .engine = options.engine,
                        .group = options.group});
      check_said(said, static_cast<std::size_t>(count));
      for (std::int64_t index = 0; index < count; ++index) {
        Gradient& each = gradients[static_cast<std::size_t>(index)];
        each.work->wait();
        if (said[index] != kNone) {
          each.parameter.mutable_grad() = each.reduced;
        } else {
          each.reduced.reset();
        }
      }
    }

    /// Throws, on all ranks alike, where they have not begun the same.
    void check_said(const std::uint8_t* said, std::size_t count) {
      for (std::size_t index = 0; index < count; ++index) {
        if (said[index] == kReplaced) {
          throw Error(Code::invalid_argument,
                      "'" + gradients[index].name +
                          "' was replaced, on some rank, while it was averaged: drop a pass by zero_grad() of the "
                          "DistributedOptimizer, and change gradients behind synchronize()",
                      gradients[index].name);
        }
      }
      if (const auto least = static_cast<std::uint8_t>(~said[count + 1]); said[count] != least) {
        dropped = 0;
        throw Error(Code::invalid_argument,
                    "one rank has dropped a backward pass (zero_grad() before step()) that another one steps with: "
                    "every rank drops it, or none");
      }
    }

    const DistributedOptimizerOptions options;
    std::mutex mutex;  ///< guards what follows
    std::vector<Gradient> gradients;
    std::uint8_t dropped = 0;      ///< passes that were begun to be averaged and have met no step, modulo 256
    bool is_synchronized = false;  ///< all gradients are averaged, and no pass has come since
    bool is_over = false;
  };

  void hook(std::size_t index) {
    const at::Tensor& parameter = shared_->gradients[index].parameter;
    auto accumulator = ::torch::autograd::impl::grad_accumulator(parameter);
    accumulator->add_post_hook(std::make_unique<::torch::autograd::utils::LambdaPostHook>(
        [shared = std::weak_ptr<Shared>(shared_), index](const std::vector<at::Tensor>& outputs,
                                                         const std::vector<at::Tensor>&) {
          if (const std::shared_ptr<Shared> alive = shared.lock()) {
            alive->accumulated(index);
          }
          return outputs;
        }));
    // A parameter holds its accumulator weakly, and would get one without the hook.
    accumulators_.emplace_back([accumulator] {});
  }

  /// Its name is a view of this object's.
  AllreduceOptions loss_options() const {
    const DistributedOptimizerOptions& all = shared_->options;
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
  void check_parameters() const {
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
  }

  ::torch::optim::Optimizer& optimizer_;
  const std::shared_ptr<Shared> shared_;
  const std::string loss_name_ = shared_->options.prefix + ".loss";
  std::vector<std::function<void()>> accumulators_;  ///< each holds one; its type differs between versions of libtorch
  std::vector<const void*> parameters_;              ///< the optimizer's, by identity, in its order
  std::unordered_set<const void*> reduced_;          ///< those that have a hook
};

}  // namespace torch
}  // namespace v0
}  // namespace ronde
