// A perceptron trained by several processes with libtorch: each rank has a share of every batch, and the gradients are
// averaged while the backward pass computes others. Ends with 0 only if every rank has the weights that one process
// gets from the whole batches.
//
//   ronde run -n 4 -- build/libtorch/training
#include <ronde/torch.hpp>

#include <cstdint>
#include <cstdio>
#include <string>

namespace {

constexpr std::int64_t kSamples = 64;  // of a batch, on all ranks together
constexpr std::int64_t kFeatures = 32;
constexpr std::int64_t kClasses = 10;
constexpr int kSteps = 50;
constexpr double kLearningRate = 0.05;
constexpr double kAllowedDifference = 1e-5;

torch::nn::Sequential make_model() {
  return torch::nn::Sequential(torch::nn::Linear(kFeatures, 64), torch::nn::Tanh(), torch::nn::Linear(64, kClasses));
}

struct Batch {
  torch::Tensor features, classes;
};

/// The same on every rank, since the seed is: points around the centre of their class.
Batch make_batch(int step) {
  torch::manual_seed(1000 + step);
  Batch batch;
  batch.classes = torch::randint(kClasses, {kSamples});
  batch.features = torch::one_hot(batch.classes, kFeatures).to(torch::kFloat) * 2 + torch::randn({kSamples, kFeatures});
  return batch;
}

torch::Tensor loss_of(torch::nn::Sequential& model, const Batch& batch) {
  return torch::cross_entropy_loss(model->forward(batch.features), batch.classes);
}

/// This rank's share of each batch.
torch::nn::Sequential train(int rank, int size) {
  torch::manual_seed(rank);  // ranks begin with different weights, and rank 0's are given to all
  torch::nn::Sequential model = make_model();
  ronde::torch::broadcast_parameters(*model);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(kLearningRate).momentum(0.9));
  ronde::torch::DistributedOptimizer optimizer(sgd, {.named_parameters = model->named_parameters()});
  for (int step = 0; step < kSteps; ++step) {
    const Batch whole = make_batch(step);
    const std::int64_t share = kSamples / size;
    const Batch own{whole.features.narrow(0, rank * share, share), whole.classes.narrow(0, rank * share, share)};
    optimizer.zero_grad();
    const torch::Tensor loss = loss_of(model, own);
    loss.backward();
    optimizer.step();
    if (step % 10 == 0 || step == kSteps - 1) {
      const double mean = ronde::torch::allreduce(loss, {.name = "loss"}).item<double>();
      if (rank == 0) {
        std::printf("step %2d   loss %.6f\n", step, mean);
      }
    }
  }
  return model;
}

/// One process on whole batches, with rank 0's first weights.
torch::nn::Sequential train_serially() {
  torch::manual_seed(0);
  torch::nn::Sequential model = make_model();
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(kLearningRate).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    sgd.zero_grad();
    loss_of(model, make_batch(step)).backward();
    sgd.step();
  }
  return model;
}

double largest_difference(torch::nn::Sequential& a, torch::nn::Sequential& b) {
  const torch::NoGradGuard no_grad;
  double largest = 0;
  for (std::size_t i = 0; i < a->parameters().size(); ++i) {
    largest = std::max(largest, (a->parameters()[i] - b->parameters()[i]).abs().max().item<double>());
  }
  return largest;
}

}  // namespace

int main() {
  try {
    torch::set_num_threads(1);
    ronde::Session session;
    const int rank = ronde::rank();
    const int size = ronde::size();
    if (kSamples % size != 0) {
      std::fprintf(stderr, "training: batches of %d samples do not divide among %d ranks\n", int{kSamples}, size);
      return 1;
    }
    torch::nn::Sequential model = train(rank, size);
    torch::nn::Sequential serial = train_serially();
    // The worst of any rank: all of them see whether all are right.
    const torch::Tensor own = torch::tensor(largest_difference(model, serial), torch::kDouble);
    const double worst = ronde::torch::allreduce(own, {.name = "difference", .op = ronde::Op::max}).item<double>();
    const bool is_right = worst <= kAllowedDifference;
    if (rank == 0) {
      std::printf("largest difference from one process's weights on any rank: %.1e (allowed %.0e): %s\n", worst,
                  kAllowedDifference, is_right ? "ok" : "WRONG");
    }
    return is_right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "training: %s\n", error.what());
    return 1;
  }
}
