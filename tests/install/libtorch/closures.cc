// DistributedOptimizer::step(closure) beside one process that has all ranks' data.
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "checks.h"

namespace {

/// As one process with the losses of all ranks, added up or averaged, and scaled.
void check_searches(ronde::Op op, double prescale, const std::string& name) {
  const ::torch::optim::LBFGSOptions way = ::torch::optim::LBFGSOptions(1).max_iter(5).line_search_fn("strong_wolfe");
  const auto loss_of = [](const at::Tensor& weight, int of) {
    const at::Tensor first = weight.slice(0, 0, 5);
    const at::Tensor second = weight.slice(0, 5, 10);
    return (100 * (second - first * first).pow(2) + (1 - first + 0.1 * of).pow(2)).sum();
  };
  const at::Tensor begin = at::linspace(-1, 1, 10, at::kDouble);
  at::Tensor weight = begin.clone().requires_grad_();
  ::torch::optim::LBFGS lbfgs({weight}, way);
  ronde::torch::DistributedOptimizer optimizer(lbfgs, {.op = op, .prescale = prescale, .prefix = "closure " + name});
  at::Tensor one = begin.clone().requires_grad_();
  ::torch::optim::LBFGS serial({one}, way);
  for (int step = 0; step < 3; ++step) {
    optimizer.step([&] {
      optimizer.zero_grad();
      at::Tensor own = loss_of(weight, rank);
      own.backward();
      if (step == 1) {
        optimizer.synchronize();  // to clip gradients, say
      }
      return own;
    });
    serial.step([&] {
      serial.zero_grad();
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (int of = 0; of < size; ++of) {
        sum = sum + loss_of(one, of);
      }
      sum = sum * (op == ronde::Op::sum ? prescale : prescale / size);
      sum.backward();
      return sum;
    });
  }
  check(at::allclose(weight.detach(), one.detach(), 1e-3, 1e-3), "a line search over all ranks' losses, " + name);
}

/// As one process whose gradients are those of all ranks, where a closure sets them without a backward pass, or
/// computes the loss only.
template <typename Optimizer>
void check_gradients_that_a_closure_sets(ronde::Op op, const std::string& way, bool is_behind_pass) {
  const std::string name =
      "set " + way + (op == ronde::Op::sum ? " sum" : "") + (is_behind_pass ? " behind a pass" : "");
  const auto train = [&](bool is_distributed) {
    at::Tensor weight = at::tensor({1.0, -2.0, 3.0}, at::kDouble).requires_grad_();
    Optimizer plain({weight}, 0.02);
    std::optional<ronde::torch::DistributedOptimizer> optimizer;
    if (is_distributed) {
      optimizer.emplace(plain, ronde::torch::DistributedOptimizerOptions{.op = op, .prefix = name});
    }
    const auto loss_of = [&] {
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (int of = is_distributed ? rank : 0; of < (is_distributed ? rank + 1 : size); ++of) {
        const at::Tensor line = (at::arange(3, at::kDouble) - of) * weight;
        sum = sum + (line.sin() + line.square()).sum();
      }
      return is_distributed || op == ronde::Op::sum ? sum : sum / size;
    };
    for (int step = 0; step < 4; ++step) {
      const auto closure = [&]() -> at::Tensor {
        const at::Tensor loss = loss_of();
        if (way == "only the loss") {
          if (step % 2 == 0) {
            optimizer ? optimizer->zero_grad() : plain.zero_grad();
            weight.mutable_grad() = ::torch::autograd::grad({loss}, {weight})[0];
          }
          return loss.detach();
        }
        const at::Tensor gradient = ::torch::autograd::grad({loss}, {weight})[0];
        if (way == "zeroed") {
          optimizer ? optimizer->zero_grad() : plain.zero_grad();
        }
        if (way == "zeroed" || way == "replaced" || !weight.grad().defined()) {
          weight.mutable_grad() = gradient;
        } else if (way == "written") {
          weight.mutable_grad().copy_(gradient);
        } else {
          std::memcpy(weight.mutable_grad().data_ptr(), gradient.data_ptr(), gradient.nbytes());
        }
        return loss.detach();
      };
      if (is_behind_pass) {
        plain.zero_grad();
        loss_of().backward();
      }
      optimizer ? optimizer->step(closure) : plain.step(closure);
    }
    return weight.detach();
  };
  if (op == ronde::Op::sum && size > 1 && way != "zeroed" && way != "only the loss") {
    const std::string what = way == "replaced" ? "replaced" : "written to";
    check_refused([&] { train(true); }, "has " + what + " gradients that were reduced already", name);
  } else {
    check(at::allclose(train(true), train(false), 1e-6, 1e-9), name);
  }
}

/// Sums that a step left: a pass may not add to them, nor to some of them only; a NaN does not make others of them.
void check_sums_that_are_left(bool has_nan) {
  const std::string name = has_nan ? "sums left with a NaN" : "sums left";
  at::Tensor a = at::ones({3}).requires_grad_();
  at::Tensor b = at::ones({3}).requires_grad_();
  ::torch::optim::SGD plain({a, b}, 0.1);
  ronde::torch::DistributedOptimizer optimizer(plain, {.op = ronde::Op::sum, .prefix = name});
  const auto pass = [&] {
    const at::Tensor loss = (a * (rank + 1)).sum() + (b * (has_nan ? std::nan("") : 1.0)).sum();
    loss.backward();
    return loss.detach();
  };
  optimizer.step([&] {
    plain.zero_grad();
    return pass();
  });
  const at::Tensor sum = at::full({3}, size * (size + 1) / 2.0);
  check_equal(a.grad(), sum, name);
  optimizer.step([&] { return at::zeros({}); });
  check_equal(a.grad(), sum, name + ", after a look at the loss");
  if (size > 1) {
    check_refused([&] { optimizer.step(pass); }, "adds to gradients that were reduced already", name);
    optimizer.zero_grad();
    optimizer.step(pass);
    check_equal(a.grad(), sum, name + ", zeroed and computed anew");
  }
}

/// A reduced gradient has no graph, which would be this rank's alone.
void check_that_reduced_gradients_have_no_graph() {
  at::Tensor weight = at::ones({3}).requires_grad_();
  ::torch::optim::SGD plain({weight}, 1);
  ronde::torch::DistributedOptimizer optimizer(plain, {.prefix = "graph"});
  (weight.pow(3).sum() * (rank + 1)).backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  check(weight.grad().requires_grad(), "a gradient with a graph");
  optimizer.synchronize();
  check(weight.grad().requires_grad() == (size == 1), "a reduced gradient without one");
  check_equal(weight.grad().detach(), at::full({3}, 3.0 * (size + 1) / 2), "its value");
}

/// What one rank refuses, or has left where others have new gradients, all are told; the next step is right.
void check_that_all_are_told(bool is_refused) {
  const std::string name = is_refused ? "told of a refusal" : "told of what is left";
  at::Tensor weight = at::zeros({2}).requires_grad_();
  ::torch::optim::SGD plain({weight}, 1);
  ronde::torch::DistributedOptimizer optimizer(plain, {.op = ronde::Op::sum, .prefix = name});
  const auto pass = [&](double factor) {
    const at::Tensor loss = (weight * factor * (rank + 1)).sum();
    loss.backward();
    return loss.detach();
  };
  for (int step = 1; step <= 5; ++step) {
    const auto right = [&] {
      optimizer.zero_grad();
      return pass(step);
    };
    const auto wrong = [&] {
      if (rank != 0) {
        return at::zeros({});
      }
      is_refused ? void() : weight.mutable_grad().reset();
      return pass(step);
    };
    const at::Tensor before = weight.detach().clone();
    if (step % 2 == 1) {
      optimizer.step(right);
      check(at::allclose(weight.detach(), before - step * size * (size + 1) / 2.0), name);
    } else if (size > 1) {
      check_refused([&] { optimizer.step(wrong); },
                    !is_refused ? "on some rank"
                    : rank == 0 ? "adds to gradients that were reduced already"
                                : "another rank refuses",
                    name);
      check_equal(weight.detach(), before, name);
    }
  }
}

/// Averages, of which a rank that has joined is part with nothing: they stay where a closure looks at the loss again.
void check_averages_while_a_rank_has_joined() {
  class Looks : public ::torch::optim::SGD {
   public:
    using SGD::SGD;
    at::Tensor step(LossClosure closure) override {
      closure();
      closure();
      return SGD::step(closure);
    }
  };
  at::Tensor weight = at::zeros({2}).requires_grad_();
  Looks plain({weight}, 0.1);
  ronde::torch::DistributedOptimizer optimizer(plain, {.prefix = "averages and joins"});
  for (const int present : {size, size - 1, size}) {
    for (int step = 0; step < 2 && rank < present; ++step) {
      int evaluations = 0;
      optimizer.step([&] {
        if (evaluations++ == 0) {
          optimizer.zero_grad();
          (weight * 4).sum().backward();
        }
        return weight.detach().sum();
      });
      const float expected = 4.0F * static_cast<float>(present) / static_cast<float>(size);
      check(at::allclose(weight.grad(), at::full({2}, expected)), "averages while a rank has joined");
    }
    if (present < size && rank < present) {
      plain.zero_grad();
      weight.mutable_grad() = at::ones({2});
      optimizer.synchronize();
      weight.mutable_grad().mul_(0.5);
      check_refused([&] { optimizer.synchronize(); }, "whether they are new cannot be told", "a clipped average");
      optimizer.zero_grad();
    }
    ronde::join();
  }
}

/// Without a step, by a program that steps by itself: only the first were reduced.
void check_gradients_that_are_set_before_each_synchronize(const std::string& way) {
  const auto train = [&](bool is_distributed) {
    at::Tensor weight = at::tensor({1.0, -2.0, 3.0}, at::kDouble).requires_grad_();
    ::torch::optim::SGD plain({weight}, 0.05);
    ronde::torch::DistributedOptimizer optimizer(plain, {.prefix = "set before synchronize() " + way});
    for (int step = 0; step < 4; ++step) {
      at::Tensor loss = at::zeros({}, at::kDouble);
      for (int of = is_distributed ? rank : 0; of < (is_distributed ? rank + 1 : size); ++of) {
        loss = loss + ((at::arange(3, at::kDouble) - of) * weight).square().sum();
      }
      const at::Tensor gradient = ::torch::autograd::grad({is_distributed ? loss : loss / size}, {weight})[0];
      if (way == "assigned" || step == 0) {
        weight.mutable_grad() = gradient;
      } else {
        weight.mutable_grad().copy_(gradient);
      }
      if (is_distributed) {
        optimizer.synchronize();
        optimizer.synchronize();
      }
      const ::torch::NoGradGuard no_grad;
      weight.sub_(weight.grad(), 0.05);
    }
    return weight.detach();
  };
  check(at::allclose(train(true), train(false), 1e-6, 1e-9), way + " before each synchronize()");
}

void check_sums_that_are_changed_before_synchronize() {
  at::Tensor weight = at::ones({3}).requires_grad_();
  ::torch::optim::SGD plain({weight}, 0.1);
  ronde::torch::DistributedOptimizer optimizer(plain, {.op = ronde::Op::sum, .prefix = "sums changed"});
  (weight * (rank + 1)).sum().backward();
  optimizer.synchronize();
  optimizer.synchronize();
  weight.mutable_grad().mul_(0.5);  // as clipping does
  if (size > 1) {
    check_refused([&] { optimizer.synchronize(); }, "whether they are new cannot be told", "a sum that is clipped");
  }
  optimizer.step();
  check_equal(weight.grad(), at::full({3}, size * (size + 1) / 4.0), "a sum that is clipped, after the step");
}

void check_gradients_that_closures_set() {
  for (const ronde::Op op : {ronde::Op::average, ronde::Op::sum}) {
    for (const char* const way : {"zeroed", "replaced", "written", "copied", "only the loss"}) {
      check_gradients_that_a_closure_sets<::torch::optim::SGD>(op, way, false);
      check_gradients_that_a_closure_sets<::torch::optim::LBFGS>(op, way, false);
    }
    for (const char* const way : {"zeroed", "replaced", "written", "copied"}) {
      check_gradients_that_a_closure_sets<::torch::optim::SGD>(op, way, true);
      check_gradients_that_a_closure_sets<::torch::optim::LBFGS>(op, way, true);
    }
  }
}

}  // namespace

void check_closures() {
  check_searches(ronde::Op::average, 1, "average");
  check_searches(ronde::Op::average, 0.25, "scaled average");
  check_searches(ronde::Op::sum, 1, "sum");
  check_searches(ronde::Op::sum, 0.25, "scaled sum");
  check_gradients_that_closures_set();
  check_sums_that_are_left(false);
  check_sums_that_are_left(true);
  check_that_reduced_gradients_have_no_graph();
  check_that_all_are_told(true);
  check_that_all_are_told(false);
  check_averages_while_a_rank_has_joined();
  check_gradients_that_are_set_before_each_synchronize("assigned");
  check_gradients_that_are_set_before_each_synchronize("written");
  check_sums_that_are_changed_before_synchronize();
}
