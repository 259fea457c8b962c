// Linear regression on several processes, in C++ only: each rank holds a share of the samples, and the gradient is
// averaged over all of them. Ends with 0 only if every rank has found the serial solution.
//
//   ronde run -n 4 -- build/dev/examples/cpp/linear_regression
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <ronde/ronde.hpp>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kSamples = 4000;
constexpr std::size_t kWeights = 16;
constexpr int kSteps = 200;
constexpr double kLearningRate = 0.2;
constexpr double kAllowedDifference = 1e-6;
constexpr unsigned kSeed = 20;

struct Data {
  std::vector<double> features;  // kSamples rows of kWeights
  std::vector<double> targets;

  std::span<const double> row(std::size_t sample) const { return {&features[sample * kWeights], kWeights}; }
};

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// The same on every rank, since the seed is.
Data make_data() {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  std::vector<double> truth(kWeights);
  std::generate(truth.begin(), truth.end(), [&] { return normal(random); });

  Data data;
  data.features.resize(kSamples * kWeights);
  std::generate(data.features.begin(), data.features.end(), [&] { return normal(random); });
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    data.targets.push_back(dot(data.row(sample), truth) + 0.1 * normal(random));
  }
  return data;
}

/// The least-squares solution, by the normal equations and Gaussian elimination: (X'X) w = X'y. The matrix is positive
/// definite, so no pivoting is needed.
std::vector<double> solve_serially(const Data& data) {
  std::vector<std::vector<double>> matrix(kWeights, std::vector<double>(kWeights + 1));
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    const std::span<const double> x = data.row(sample);
    for (std::size_t i = 0; i < kWeights; ++i) {
      for (std::size_t j = 0; j < kWeights; ++j) {
        matrix[i][j] += x[i] * x[j];
      }
      matrix[i][kWeights] += x[i] * data.targets[sample];
    }
  }
  for (std::size_t pivot = 0; pivot < kWeights; ++pivot) {
    for (std::size_t i = 0; i < kWeights; ++i) {
      const double factor = i == pivot ? 0 : matrix[i][pivot] / matrix[pivot][pivot];
      for (std::size_t j = pivot; j <= kWeights; ++j) {
        matrix[i][j] -= factor * matrix[pivot][j];
      }
    }
  }
  std::vector<double> weights(kWeights);
  for (std::size_t i = 0; i < kWeights; ++i) {
    weights[i] = matrix[i][kWeights] / matrix[i][i];
  }
  return weights;
}

/// Sums the gradient of half the squared error over this rank's samples into `gradient`; returns the sum of the errors.
double add_up_gradient(const Data& data, std::size_t first, std::size_t last, std::span<const double> weights,
                       std::span<double> gradient) {
  std::fill(gradient.begin(), gradient.end(), 0.0);
  double loss = 0;
  for (std::size_t sample = first; sample < last; ++sample) {
    const std::span<const double> x = data.row(sample);
    const double error = dot(x, weights) - data.targets[sample];
    loss += 0.5 * error * error;
    for (std::size_t i = 0; i < kWeights; ++i) {
      gradient[i] += error * x[i];
    }
  }
  return loss;
}

/// Gradient descent, every rank on its own samples.
std::vector<double> train(const Data& data, std::size_t rank, std::size_t size) {
  const std::size_t first = kSamples * rank / size;
  const std::size_t last = kSamples * (rank + 1) / size;

  // Ranks begin with different weights, and the root's are given to all.
  std::vector<double> weights(kWeights, static_cast<double>(rank));
  ronde::broadcast(weights, {.name = "weights", .root = 0});

  std::vector<double> gradient(kWeights);
  std::vector<double> loss(1);
  for (int step = 0; step < kSteps; ++step) {
    loss[0] = add_up_gradient(data, first, last, weights, gradient);
    // Shares need not be equal: the sums are added up, and divided by the number of all samples at the end.
    ronde::grouped_allreduce({gradient, loss},
                             {.name = "gradient and loss", .op = ronde::Op::sum, .postscale = 1.0 / kSamples});
    for (std::size_t i = 0; i < kWeights; ++i) {
      weights[i] -= kLearningRate * gradient[i];
    }
    if (rank == 0 && (step % 40 == 0 || step == kSteps - 1)) {
      std::printf("step %3d   loss %.9f\n", step, loss[0]);
    }
  }
  return weights;
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

}  // namespace

int main() {
  try {
    ronde::Session session;
    const auto rank = static_cast<std::size_t>(ronde::rank());
    const auto size = static_cast<std::size_t>(ronde::size());
    const Data data = make_data();
    if (rank == 0) {
      std::printf("linear regression: %zu samples, %zu weights, %zu rank%s\n", kSamples, kWeights, size,
                  size == 1 ? "" : "s");
    }
    const std::vector<double> weights = train(data, rank, size);

    // One number from each rank: all of them see whether all are right.
    const std::vector<double> mine{largest_difference(weights, solve_serially(data))};
    const ronde::Gathered<double> all = ronde::allgather(mine, {.name = "differences"});
    const double worst = *std::max_element(all.view().begin(), all.view().end());
    const bool right = worst <= kAllowedDifference;
    if (rank == 0) {
      std::printf("largest difference from the serial solution on any rank: %.1e (allowed %.0e): %s\n", worst,
                  kAllowedDifference, right ? "ok" : "WRONG");
    }
    return right ? 0 : 1;
  } catch (const ronde::Error& error) {
    std::fprintf(stderr, "linear_regression: %s\n", error.what());
    return 1;
  }
}
