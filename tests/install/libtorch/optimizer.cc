// DistributedOptimizer beside one process that has all ranks' data.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checks.h"

namespace {

struct Net : ::torch::nn::Module {
  Net() {
    used = register_module("used", ::torch::nn::Linear(4, 2));
    seldom = register_module("seldom", ::torch::nn::Linear(4, 2));
    never = register_module("never", ::torch::nn::Linear(4, 2));
    frozen = register_parameter("frozen", at::ones({2}), false);
    counter = register_buffer("counter", at::full({1}, rank, at::kLong));
  }
  at::Tensor forward(const at::Tensor& input, bool uses_seldom) {
    at::Tensor output = used(input) * frozen;
    return (uses_seldom ? output + seldom(input) : output).square().mean();
  }
  ::torch::nn::Linear used{nullptr}, seldom{nullptr}, never{nullptr};
  at::Tensor frozen, counter;
};

/// The gradients of a step on all ranks' data, by one process: of a mean over as many samples on each.
std::vector<at::Tensor> mean_gradients(Net& net, int step, int passes) {
  net.zero_grad();
  std::vector<at::Tensor> sums;
  for (int of = 0; of < size; ++of) {
    for (int pass = 0; pass < passes; ++pass) {
      ::torch::manual_seed(100 * step + 10 * of + pass);
      (net.forward(::torch::randn({3, 4}), of == 0 && step % 2 == 0) / size).backward();
    }
  }
  for (const at::Tensor& parameter : net.parameters()) {
    sums.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  }
  net.zero_grad();
  return sums;
}

void check_gradients(Net& net, const std::vector<at::Tensor>& expected, const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor& found = net.parameters()[i].grad();
    check(
        found.defined() == expected[i].defined() && (!found.defined() || at::allclose(found, expected[i], 1e-5, 1e-6)),
        what + " of parameter " + std::to_string(i));
  }
}

/// Rank 0 alone uses one layer, in every second step; nobody uses another.
void check_optimizer(int passes) {
  ::torch::manual_seed(rank);
  Net net;
  ronde::torch::broadcast_parameters(net);
  check_equal(net.counter, at::zeros({1}, at::kLong), "a buffer that was broadcast");
  ::torch::optim::SGD sgd(net.parameters(), 0.1);
  ronde::torch::DistributedOptimizer optimizer(sgd, {.named_parameters = net.named_parameters(),
                                                     .backward_passes_per_step = passes,
                                                     .prefix = "passes " + std::to_string(passes)});
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    Net serial;
    {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < net.parameters().size(); ++i) {
        serial.parameters()[i].copy_(net.parameters()[i]);
      }
    }
    const std::vector<at::Tensor> expected = mean_gradients(serial, step, passes);
    for (int pass = 0; pass < passes; ++pass) {
      ::torch::manual_seed(100 * step + 10 * rank + pass);
      net.forward(::torch::randn({3, 4}), rank == 0 && step % 2 == 0).backward();
    }
    if (step % 3 == 0) {
      optimizer.synchronize();
      check_gradients(net, expected, "a gradient before the step");
    }
    const at::Tensor before = net.used->weight.detach().clone();
    const at::Tensor unused = net.never->weight.detach().clone();
    optimizer.step();
    check_gradients(net, expected, "a gradient");
    check(at::allclose(net.used->weight, before - 0.1 * net.used->weight.grad()), "a step");
    check_equal(net.never->weight.detach(), unused, "what nobody has used");
    check_equal(ronde::torch::allreduce(net.used->weight, {.op = ronde::Op::max}), net.used->weight.detach(),
                "that ranks have the same weights");
  }
  for (int pass = 0; pass < passes; ++pass) {
    net.forward(at::ones({1, 4}), true).backward();
  }
  check_refused(
      [&] {
        net.forward(at::ones({1, 4}), true).backward();
      },
      "backward_passes_per_step", "one backward pass too many");
  optimizer.step();
}

/// What programs do between backward(), synchronize() and step(): one weight, whose gradient on this rank is rank + 1
/// in each pass, by SGD of rate 0.1.
class Steps {
 public:
  explicit Steps(const std::string& name, ronde::Op op = ronde::Op::average)
      : sgd_({weight_}, 0.1), optimizer_(sgd_, {.op = op, .prefix = "steps " + name}) {}

  ::torch::optim::SGD& sgd() { return sgd_; }
  ronde::torch::DistributedOptimizer& optimizer() { return optimizer_; }
  at::Tensor& weight() { return weight_; }
  at::Tensor pass() {
    at::Tensor loss = (weight_ * (rank + 1)).sum();
    loss.backward();
    return loss;
  }
  /// `units`: by how many averaged gradients the weight has been stepped.
  void check_stepped(double units, const std::string& what) {
    const double mean = (size + 1) / 2.0;
    check(std::abs(weight_.item<double>() - (1 - 0.1 * units * mean)) < 1e-9, what);
  }

 private:
  at::Tensor weight_ = at::ones({1}, at::kDouble).requires_grad_();
  ::torch::optim::SGD sgd_;
  ronde::torch::DistributedOptimizer optimizer_;
};

void check_steps() {
  {
    Steps steps("skipped");
    steps.pass();
    steps.optimizer().synchronize();  // an overflow, say: no step
    steps.optimizer().zero_grad();
    steps.pass();
    steps.optimizer().step();
    steps.check_stepped(1, "a pass after one that was averaged and not stepped with");
    steps.sgd().zero_grad();
    steps.pass();
    steps.optimizer().synchronize();
    steps.sgd().zero_grad();
    if (rank == 0) {
      steps.pass();  // the others have no data
    }
    steps.optimizer().step();
    steps.check_stepped(1 + 1 / (size * (size + 1) / 2.0), "a pass of one rank after one that was averaged");
  }
  {
    Steps steps("dropped");
    for (int pass = 0; pass < 3; ++pass) {
      steps.optimizer().zero_grad();
      steps.pass();
    }
    steps.optimizer().step();
    steps.check_stepped(1, "a pass after some that all ranks have dropped");
  }
  {
    Steps steps("twice", ronde::Op::sum);
    steps.pass();
    steps.optimizer().synchronize();
    steps.optimizer().synchronize();
    steps.optimizer().step();
    steps.check_stepped(size, "a step after two calls of synchronize()");
  }
  {
    Steps steps("closure");
    steps.pass();
    steps.optimizer().synchronize();
    steps.optimizer().step([&] {
      steps.optimizer().zero_grad();
      return steps.pass();
    });
    steps.optimizer().zero_grad();
    steps.pass();
    steps.optimizer().step();
    steps.check_stepped(2, "a step after one with a closure");
  }
  {
    Steps steps("added");
    steps.pass();
    steps.optimizer().synchronize();
    check_refused([&] { steps.pass(); }, "after synchronize() had averaged", "a pass that adds to what was averaged");
    check_refused([&] { (steps.weight() * 2).sum().backward({}, true, true); }, "after synchronize() had averaged",
                  "a pass that makes a graph and adds to what was averaged");
    steps.optimizer().step();
    steps.check_stepped(1, "a step after passes that were refused");
  }
}

/// Of what only all ranks together can see: step() throws on each of them.
void check_ranks_that_differ() {
  {
    Steps steps("replaced");
    steps.pass();
    if (rank == size - 1) {
      steps.weight().mutable_grad() = at::ones({1}, at::kDouble);
    }
    check_refused([&] { steps.optimizer().step(); }, "was replaced, on some rank", "a gradient that was replaced");
  }
  if (size > 1) {
    Steps steps("dropped by one");
    steps.pass();
    if (rank == 0) {
      steps.optimizer().zero_grad();
      steps.pass();
    }
    check_refused([&] { steps.optimizer().step(); }, "has dropped a backward pass", "a pass that one rank dropped");
  }
  {
    Steps steps("late");
    at::Tensor later = at::ones({1}, at::kDouble).requires_grad_();
    steps.sgd().param_groups()[0].params().push_back(later);
    check_refused([&] { steps.optimizer().step(); }, "make a new one", "a parameter that came later");
  }
}

/// Two weights, of which a pass may use one: each rank's gradients are rank + 1.
void check_unequal_use() {
  at::Tensor first = at::ones({1}, at::kDouble).requires_grad_();
  at::Tensor second = at::ones({1}, at::kDouble).requires_grad_();
  ::torch::optim::SGD sgd(std::vector<at::Tensor>{first, second}, 0.1);
  ronde::torch::DistributedOptimizer optimizer(sgd, {.op = ronde::Op::sum, .prefix = "unequal"});
  const double sum = size * (size + 1) / 2.0;
  for (int pass = 0; pass < 3; ++pass) {  // all but the last are dropped
    optimizer.zero_grad();
    ((rank == 0 ? first : first + second) * (rank + 1)).sum().backward();
  }
  optimizer.step();
  check(std::abs(first.item<double>() - (1 - 0.1 * sum)) < 1e-9, "a gradient of all ranks after dropped passes");
  check(std::abs(second.item<double>() - (1 - 0.1 * (sum - 1))) < 1e-9, "a gradient of some after dropped passes");

  sgd.zero_grad();
  optimizer.synchronize();  // of nothing
  if (rank == 0) {
    first.sum().backward();
  }
  optimizer.step();
  check(std::abs(first.item<double>() - (1 - 0.1 * (sum + 1))) < 1e-9, "a pass of one rank after none of all");

  optimizer.zero_grad();
  first.sum().backward();
  optimizer.synchronize();
  check_refused([&] { second.sum().backward(); }, "after synchronize() had averaged",
                "a pass by another weight after what was averaged");
}

/// A parameter of another type gets another node of autograd, which has no hook.
void check_another_type() {
  at::Tensor weight = at::ones({3}).requires_grad_();
  ::torch::optim::SGD sgd(std::vector<at::Tensor>{weight}, 0.1);
  ronde::torch::DistributedOptimizer optimizer(sgd, {.op = ronde::Op::sum, .prefix = "type"});
  weight.sum().backward();
  optimizer.synchronize();
  sgd.zero_grad();
  weight.set_data(weight.detach().to(at::kDouble));
  for (int step = 1; step <= 3; ++step) {
    (weight * (rank + 1)).sum().backward();
    optimizer.step();
    check(at::allclose(weight.detach(), at::full({3}, 1 - 0.1 * step * size * (size + 1) / 2.0, at::kDouble)),
          "a step with a parameter of another type");
    step % 2 == 0 ? sgd.zero_grad() : optimizer.zero_grad();
  }
}

/// Gives both its arguments views of one gradient.
struct Together : ::torch::autograd::Function<Together> {
  static at::Tensor forward(::torch::autograd::AutogradContext* /*context*/, const at::Tensor& first,
                            const at::Tensor& second) {
    return first + second;
  }
  static ::torch::autograd::variable_list backward(::torch::autograd::AutogradContext* /*context*/,
                                                   ::torch::autograd::variable_list gradients) {
    return {gradients[0].view({-1}), gradients[0].view({-1})};
  }
};

/// Gradients are reduced where they lie, and must not lie in what is another's.
void check_memory_of_others() {
  for (const std::int64_t elements : {1, 1000, 100000}) {
    at::Tensor first = at::ones({elements}).requires_grad_();
    at::Tensor second = at::ones({elements}).requires_grad_();
    ::torch::optim::SGD sgd(std::vector<at::Tensor>{first, second}, 0.1);
    ronde::torch::DistributedOptimizer optimizer(
        sgd, {.op = ronde::Op::sum, .prefix = "memory " + std::to_string(elements)});
    const at::Tensor expected = at::full({elements}, 1 - 0.1 * size * (size + 1) / 2.0);
    for (int way = 0; way < 3; ++way) {
      const at::Tensor mine = at::full({elements}, rank + 1.0);
      if (way == 0) {
        Together::apply(first, second).backward(mine);
      } else if (way == 1) {
        first.mutable_grad() = second.mutable_grad() = mine;
      } else {
        (first * 1).backward(mine);
        second.backward(mine);
      }
      optimizer.step();
      check(at::allclose(first.detach(), expected) && at::allclose(second.detach(), expected),
            "gradients of one memory, way " + std::to_string(way));
      if (way != 1) {
        check_equal(mine, at::full({elements}, rank + 1.0), "a tensor of the program's, way " + std::to_string(way));
      }
      optimizer.zero_grad();
      const at::NoGradGuard no_grad;
      first.fill_(1);
      second.fill_(1);
    }
  }
}

/// One tensor whose parts are the gradients, or a variable for each: there the program zeroes them. What was reduced
/// went to other tensors, which nobody zeroed, so that each step had the sum of all before.
void check_gradients_that_the_program_holds(bool is_flat) {
  at::Tensor weight = at::zeros({3}).requires_grad_();
  at::Tensor seldom = at::zeros({2}).requires_grad_();
  at::Tensor flat = at::zeros({5});
  const at::Tensor of_weight = is_flat ? flat.narrow(0, 0, 3) : at::zeros({3});
  const at::Tensor of_seldom = is_flat ? flat.narrow(0, 3, 2) : at::zeros({2});
  weight.mutable_grad() = of_weight;
  seldom.mutable_grad() = of_seldom;
  ::torch::optim::SGD sgd(std::vector<at::Tensor>{weight, seldom}, 0.0);
  ronde::torch::DistributedOptimizer optimizer(
      sgd, {.op = ronde::Op::sum, .backward_passes_per_step = 2, .prefix = is_flat ? "flat" : "held"});
  for (int step = 0; step < 5; ++step) {
    of_weight.zero_();
    of_seldom.zero_();
    const bool uses_both = rank == 0 && step % 2 == 1;
    for (int pass = 0; pass < 2; ++pass) {
      const at::Tensor loss = weight.sum() * (rank + 1.0) * (step + 1);
      (uses_both ? loss + seldom.sum() : loss).backward();
    }
    optimizer.step();
    check_equal(of_weight, at::full({3}, (step + 1.0) * size * (size + 1)), "a gradient that the program holds");
    check_equal(of_seldom, at::full({2}, step % 2 == 1 ? 2.0 : 0.0), "one that this rank may not have used");
    check(weight.grad().is_same(of_weight) && seldom.grad().is_same(of_seldom), "whose gradients these are");
  }
}

void check_a_parameter_twice() {
  for (const std::int64_t elements : {1, 1000, 1000000}) {
    at::Tensor weight = at::ones({elements}).requires_grad_();
    ::torch::optim::SGD sgd(std::vector<at::Tensor>{weight, weight}, 0.1);
    ronde::torch::DistributedOptimizer optimizer(sgd,
                                                 {.op = ronde::Op::sum, .prefix = "twice " + std::to_string(elements)});
    weight.sum().backward();
    optimizer.step();  // steps it twice, as in one process
    check(at::allclose(weight.detach(), at::full({elements}, 1 - 0.2 * size)), "a parameter that stands there twice");
    check_refused([&] { ronde::torch::broadcast_optimizer_state(sgd); }, "a parameter twice",
                  "the state of such a one");
  }
}

/// Two parameters, of which a pass may use one on some ranks only.
struct Pair {
  at::Tensor a = at::ones({4}, at::kDouble).requires_grad_();
  at::Tensor b = at::ones({4}, at::kDouble).requires_grad_();
  ::torch::optim::SGD sgd{std::vector<at::Tensor>{a, b}, 0.1};
};

/// What one rank has begun of an optimizer's last pass, and another has not, must not meet the next optimizer of the
/// same names: all its gradients were of two steps.
void check_optimizers_in_turn(bool drops) {
  Pair pair;
  for (int life = 0; life < 3; ++life) {
    ronde::torch::DistributedOptimizer optimizer(pair.sgd, {.op = ronde::Op::sum});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const double factor = 100 * life + 10 * step;
      ((pair.a + pair.b) * (factor + rank)).sum().backward();
      optimizer.step();
      const at::Tensor expected = at::full({4}, size * factor + size * (size - 1) / 2.0, at::kDouble);
      check_equal(pair.a.grad(), expected, "a gradient of an optimizer after another one");
      check_equal(pair.b.grad(), expected, "a gradient that an earlier optimizer has given up");
    }
    optimizer.zero_grad();
    (rank == 0 ? 1000 * (pair.a + pair.b) : 1000 * pair.a).sum().backward();
    if (drops) {
      optimizer.zero_grad();
    }
  }
}

/// One rank misses a step, in which the others time out: soon after all go on together.
void check_a_missed_step() {
  Pair pair;
  ronde::torch::DistributedOptimizer optimizer(pair.sgd, {.op = ronde::Op::sum, .prefix = "missed", .timeout_s = 1});
  int failures = 0;
  for (int step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    bool is_right = false;
    if (size == 1 || step != 1 || rank != 0) {
      try {
        ((pair.a + pair.b) * (10.0 * step + rank)).sum().backward();
        optimizer.step();
        is_right = true;
        check_equal(pair.b.grad(), at::full({4}, size * 10.0 * step + size * (size - 1) / 2.0, at::kDouble),
                    "a gradient after a missed step");
      } catch (const ronde::Error&) {
        ++failures;
      }
    }
    check(is_right || (size > 1 && (step == 1 || step == 2)), "step " + std::to_string(step) + " after a missed one");
    ronde::barrier();
  }
  check(failures == (size == 1 ? 0 : rank == 0 ? 1 : 2), "how many steps fail after a missed one");
}

/// As in a generative adversarial network: both have the default names, and the passes of one reach the other's
/// parameter.
void check_two_optimizers() {
  at::Tensor generator = at::ones({4}, at::kDouble).requires_grad_();
  at::Tensor critic = at::ones({4}, at::kDouble).requires_grad_();
  ::torch::optim::SGD of_generator({generator}, 0.0);
  ::torch::optim::SGD of_critic({critic}, 0.0);
  ronde::torch::DistributedOptimizer first(of_generator, {.op = ronde::Op::sum});
  ronde::torch::DistributedOptimizer second(of_critic, {.op = ronde::Op::sum});
  for (int step = 0; step < 4; ++step) {
    first.zero_grad();
    second.zero_grad();
    (generator * critic * (step + rank)).sum().backward();
    first.step();
    check_equal(generator.grad(), at::full({4}, size * step + size * (size - 1) / 2.0, at::kDouble),
                "a gradient of the first of two optimizers");
    second.zero_grad();
    (critic * 7 * (step + rank)).sum().backward();
    second.step();
    check_equal(critic.grad(), at::full({4}, 7 * (size * step + size * (size - 1) / 2.0), at::kDouble),
                "a gradient of the second of two optimizers");
  }
}

/// One's reduction wrote to what the other had cloned of the gradient. That one may end while another takes its place.
void check_a_parameter_of_two_optimizers() {
  Pair pair;
  ::torch::optim::SGD of_one({pair.a}, 0.1);
  std::unique_ptr<ronde::torch::DistributedOptimizer> last;
  {
    const ronde::torch::DistributedOptimizer first(pair.sgd, {.prefix = "of two"});
    last = std::make_unique<ronde::torch::DistributedOptimizer>(
        of_one, ronde::torch::DistributedOptimizerOptions{.op = ronde::Op::sum, .prefix = "of one"});
    check_refused([&] { (pair.a * (rank + 1)).sum().backward(); }, "another DistributedOptimizer has this parameter",
                  "a pass that comes to two optimizers");
    pair.b.sum().backward();
  }
  pair.a.mutable_grad() = at::Tensor();
  (pair.a * (rank + 1)).sum().backward();
  last->step();
  check_equal(pair.a.grad(), at::full({4}, size * (size + 1) / 2.0, at::kDouble), "a gradient of the one that is left");
}

/// Ranks that have frozen different parameters, but as many, are told so.
void check_other_parameters() {
  Pair pair;
  if (size > 1) {
    (rank == 0 ? pair.a : pair.b).requires_grad_(false);
  }
  ronde::torch::DistributedOptimizer optimizer(pair.sgd, {.prefix = "other parameters"});
  const auto step = [&] {
    optimizer.zero_grad();
    (pair.a + pair.b).sum().backward();
    optimizer.step();
  };
  if (size == 1) {
    step();
    return;
  }
  try {
    step();
    check(false, "ranks with other parameters (nothing was thrown)");
  } catch (const ronde::Error& error) {
    check(error.code() == ronde::Code::mismatch &&
              std::string(error.what()).find("different parameters") != std::string::npos,
          std::string("ranks with other parameters (") + error.what() + ")");
  }
}

/// Gives its second argument no gradient.
struct FirstOnly : ::torch::autograd::Function<FirstOnly> {
  static at::Tensor forward(::torch::autograd::AutogradContext* /*context*/, const at::Tensor& first,
                            const at::Tensor& /*second*/) {
    return first.clone();
  }
  static ::torch::autograd::variable_list backward(::torch::autograd::AutogradContext* /*context*/,
                                                   ::torch::autograd::variable_list gradients) {
    return {gradients[0], at::Tensor()};
  }
};

void check_undefined_gradients() {
  at::Tensor first = at::ones({3}).requires_grad_();
  at::Tensor second = at::ones({3}).requires_grad_();
  ::torch::optim::SGD sgd(std::vector<at::Tensor>{first, second}, 0.1);
  ronde::torch::DistributedOptimizer optimizer(sgd, {.op = ronde::Op::sum, .prefix = "undefined"});
  (rank == 0 ? FirstOnly::apply(first, second) : first * second).sum().backward();
  optimizer.step();
  check(at::allclose(first.detach(), at::full({3}, 1 - 0.1 * size)), "a gradient that all ranks have");
  check(at::allclose(second.detach(), at::full({3}, 1 - 0.1 * (size - 1))), "a gradient that a function left out");
}

void check_state() {
  ::torch::manual_seed(7 + rank);
  Net net;
  ::torch::optim::Adam adam(net.parameters(), rank == 0 ? 0.01 : 0.5);
  for (int step = 0; step <= rank; ++step) {
    adam.zero_grad();
    net.forward(::torch::randn({3, 4}), true).backward();
    adam.step();
  }
  ronde::torch::broadcast_parameters(net);
  ronde::torch::broadcast_optimizer_state(adam);
  adam.zero_grad();
  net.forward(at::ones({1, 4}), true).backward();
  adam.step();
  const at::Tensor weight = net.used->weight.detach();
  check_equal(ronde::torch::broadcast(weight), weight, "a step after the state was broadcast");

  ::torch::optim::SGD sgd(net.parameters(), ::torch::optim::SGDOptions(0.1).momentum(0.9));
  if (rank != 0) {  // which has no state yet
    net.forward(at::ones({1, 4}), true).backward();
    sgd.step();
  }
  ronde::torch::broadcast_parameters(net);
  ronde::torch::broadcast_optimizer_state(sgd);
  sgd.zero_grad();
  net.forward(at::ones({1, 4}), true).backward();
  sgd.step();
  check_equal(ronde::torch::broadcast(weight), weight, "a step after the root's empty state was broadcast");

  ::torch::optim::LBFGS lbfgs(net.used->parameters(), ::torch::optim::LBFGSOptions(0.5).max_iter(4));
  ronde::torch::DistributedOptimizer optimizer(lbfgs, {.prefix = "lbfgs"});
  const at::Tensor input = ::torch::randn({3, 4});
  const at::Tensor loss = optimizer.step([&] {
    lbfgs.zero_grad();
    at::Tensor own = net.forward(input, false);
    own.backward();
    return own;
  });
  check(loss.defined(), "the loss of a closure");
  check_equal(ronde::torch::broadcast(net.used->weight), net.used->weight.detach(), "weights after a closure's step");
}

}  // namespace

void check_optimizers() {
  check_optimizer(1);
  check_optimizer(3);
  check_steps();
  check_ranks_that_differ();
  check_a_parameter_twice();
  check_gradients_that_the_program_holds(true);
  check_gradients_that_the_program_holds(false);
  check_unequal_use();
  check_optimizers_in_turn(true);
  check_optimizers_in_turn(false);
  check_two_optimizers();
  check_a_parameter_of_two_optimizers();
  check_a_missed_step();
  check_other_parameters();
  check_memory_of_others();
  check_another_type();
  check_undefined_gradients();
  check_state();
}
