// Part of <ronde/torch.hpp>: averages gradients over the ranks while a backward pass computes others.
#pragma once

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
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
/// stepped. One thread at a time, but for the threads of autograd.
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
    std::size_t position = 0;
    for (const auto& group : optimizer_.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const auto found = names.find(parameter.unsafeGetTensorImpl());
        const std::string name = found == names.end() ? std::to_string(position) : found->second;
        ++position;
        if (parameter.requires_grad()) {
          shared_->gradients.emplace_back();
          shared_->gradients.back().parameter = parameter;
          shared_->gradients.back().name = all.prefix + "." + name;
        }
      }
    }
    parameters_ = position;
    for (std::size_t index = 0; index < shared_->gradients.size(); ++index) {
      hook(index);
    }
  }
  /// Waits for what is under way. The parameters' later backward passes reduce nothing.
  ~DistributedOptimizer() { shared_->drop_all(); }
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  void zero_grad(bool set_to_none = true) { optimizer_.zero_grad(set_to_none); }

  /// Returns when every gradient is the reduced one: to clip them, say, before step(). Throws the error of the first
  /// that failed; then all of the step are given up, and the gradients are of no use.
  void synchronize() {
    check_parameters();
    shared_->synchronize();
    is_synchronized_ = true;
  }

  /// synchronize(), unless that was called since the last step; then the optimizer's step.
  void step() {
    if (!std::exchange(is_synchronized_, false)) {
      check_parameters();
      shared_->synchronize();
    }
    optimizer_.step();
  }
  /// Of optimizers that evaluate the model themselves (LBFGS): each loss that `closure` returns is averaged over the
  /// ranks too, so that all take the same decisions by it. Returns the last step's loss.
  at::Tensor step(const std::function<at::Tensor()>& closure) {
    check_parameters();
    return optimizer_.step([this, &closure] {
      const at::Tensor loss = closure();
      shared_->synchronize();
      const DistributedOptimizerOptions& all = shared_->options;
      return allreduce(
          loss, {.name = all.prefix + ".loss", .timeout_s = all.timeout_s, .engine = all.engine, .group = all.group});
    });
  }

  ::torch::optim::Optimizer& optimizer() const { return optimizer_; }

 private:
  /// Of one parameter, in the step under way.
  struct Gradient {
    at::Tensor parameter;
    std::string name;
    int passes = 0;
    std::optional<Work> work = {};  ///< its reduction
  };

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
      if (++each.passes == options.backward_passes_per_step) {
        each.work.emplace(reduce(each.parameter.mutable_grad(), each.name));
      }
    }

    void synchronize() {
      const std::lock_guard lock(mutex);
      try {
        finish();
      } catch (...) {
        forget();
        throw;
      }
      forget();
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

    Work reduce(const at::Tensor& gradient, const std::string& name) const {
      return allreduce_async_(gradient, {.name = name,
                                         .op = options.op,
                                         .prescale = options.prescale,
                                         .postscale = options.postscale,
                                         .timeout_s = options.timeout_s,
                                         .engine = options.engine,
                                         .group = options.group});
    }

    /// Those that no pass has completed are reduced as they are. Ranks tell each other which gradients any of them has:
    /// one that none has was reduced from zeros, which is no gradient.
    void finish() {
      const at::NoGradGuard no_grad;
      at::Tensor present = at::zeros({static_cast<std::int64_t>(gradients.size())}, at::kByte);
      std::vector<std::pair<Gradient*, at::Tensor>> substitutes;
      for (std::size_t index = 0; index < gradients.size(); ++index) {
        Gradient& each = gradients[index];
        at::Tensor& gradient = each.parameter.mutable_grad();
        present.data_ptr<std::uint8_t>()[index] = each.work || gradient.defined() ? 1 : 0;
        if (each.work) {
          continue;
        }
        if (gradient.defined()) {
          each.work.emplace(reduce(gradient, each.name));
        } else {
          substitutes.emplace_back(&each, at::zeros_like(each.parameter));
          each.work.emplace(reduce(substitutes.back().second, each.name));
        }
      }
      const std::string name = options.prefix + ".present";
      allreduce_(present, {.name = name,
                           .op = Op::max,
                           .timeout_s = options.timeout_s,
                           .engine = options.engine,
                           .group = options.group});
      for (Gradient& each : gradients) {
        each.work->wait();
      }
      for (auto& [each, zeros] : substitutes) {
        if (present.data_ptr<std::uint8_t>()[each - gradients.data()] != 0) {
          each->parameter.mutable_grad() = zeros;
        }
      }
    }

    const DistributedOptimizerOptions options;
    std::mutex mutex;  ///< guards what follows
    std::vector<Gradient> gradients;
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

  void check_parameters() const {
    std::size_t count = 0;
    for (const auto& group : optimizer_.param_groups()) {
      count += group.params().size();
    }
    if (count != parameters_) {
      throw Error(Code::invalid_argument, "the optimizer has " + std::to_string(count) + " parameters, and had " +
                                              std::to_string(parameters_) +
                                              " when its DistributedOptimizer was made: make a new one");
    }
  }

  ::torch::optim::Optimizer& optimizer_;
  const std::shared_ptr<Shared> shared_;
  std::vector<std::function<void()>> accumulators_;  ///< each holds one; its type differs between versions of libtorch
  std::size_t parameters_ = 0;
  bool is_synchronized_ = false;
};

}  // namespace torch
}  // namespace v0
}  // namespace ronde
