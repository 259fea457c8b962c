// Adasum between ranks against the formula in long double; alone, fused, at any number of ranks.
#include "collectives/adasum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "collectives/testing/worlds.h"
#include "reduce/adasum.h"

namespace ronde::collectives {
namespace {

using Vector = std::vector<long double>;

Vector combined(const Vector& a, const Vector& b) {
  long double ab = 0;
  long double aa = 0;
  long double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  Vector result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    result[i] = (aa == 0 ? 1 : 1 - ab / (2 * aa)) * a[i] + (bb == 0 ? 1 : 1 - ab / (2 * bb)) * b[i];
  }
  return result;
}

Vector tree(std::vector<Vector> vectors) {
  while (vectors.size() > 1) {
    std::vector<Vector> next;
    for (std::size_t i = 0; i + 1 < vectors.size(); i += 2) {
      next.push_back(combined(vectors[i], vectors[i + 1]));
    }
    if (vectors.size() % 2 == 1) {
      next.push_back(vectors.back());
    }
    vectors = std::move(next);
  }
  return vectors.front();
}

Job job_of(int size, DType dtype, std::vector<std::int64_t> elements, double prescale, double postscale) {
  JobSpec spec;
  spec.size = size;
  spec.dtype = dtype;
  spec.elements = std::move(elements);
  spec.prescale = prescale;
  spec.postscale = postscale;
  spec.in_place = spec.elements.size() % 2 == 0;
  Job job = make_job(spec);
  for (Plan& plan : job.plans) {
    plan.reduce_op = ReduceOp::adasum;
  }
  return job;
}

std::vector<double> widened(DType dtype, const std::vector<std::byte>& bytes, double scale) {
  std::vector<double> values(bytes.size() / dtype_bytes(dtype));
  reduce::widen(dtype, bytes.data(), values.size(), scale, values.data());
  return values;
}

/// What member `m` must come to, in the members' type.
Vector expected_of(const Job& job, DType dtype, std::size_t member, double prescale, double postscale) {
  std::vector<Vector> inputs;
  for (const auto& rank : job.input_content) {
    const std::vector<double> values = widened(dtype, rank[member], prescale);
    inputs.emplace_back(values.begin(), values.end());
  }
  Vector result = tree(inputs);
  for (long double& value : result) {
    value *= postscale;
  }
  return result;
}

class AdasumWorlds : public testing::TestWithParam<MediumAndSize> {
 protected:
  int size() const { return GetParam().size; }
  std::unique_ptr<JobWorld> world(const transport::RegionLayout& layout) const {
    return make_world(GetParam().medium, layout);
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, AdasumWorlds, testing::ValuesIn(every_medium({1, 2, 3, 4, 5, 8})),
                         [](const auto& each) { return name_of(each.param); });

TEST_P(AdasumWorlds, IsTheTreeOfTheFormula) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    // Half a unit in the last place, and what sums in double differ by.
    const double rounding = dtype == DType::float64   ? 1e-12
                            : dtype == DType::float32 ? 6e-8
                            : dtype == DType::float16 ? 5e-4
                                                      : 4e-3;
    for (const std::vector<std::int64_t>& elements : {std::vector<std::int64_t>{1}, {3, 0, 700}, {5000, 1, 2, 37}}) {
      const double prescale = elements.size() == 3 ? 0.5 : 1.0;
      const double postscale = elements.size() == 3 ? 3.0 : 1.0;
      std::vector<Job> jobs;
      jobs.push_back(job_of(size(), dtype, elements, prescale, postscale));
      jobs.front().expected.clear();
      jobs.front().expected.emplace_back();  // compared below, not to the bit
      ASSERT_EQ(world(tiny_slots(size()))->run_by_hand(jobs, 7), "");
      const Job& job = jobs.front();
      for (std::size_t member = 0; member < elements.size(); ++member) {
        const std::vector<std::byte> first = job.outputs[0][member].content();
        for (std::size_t rank = 0; rank < job.outputs.size(); ++rank) {
          EXPECT_EQ(job.outputs[rank][member].content(), first) << "rank " << rank << " has other bits";
          EXPECT_TRUE(job.outputs[rank][member].guards_untouched());
        }
        const std::vector<double> values = widened(dtype, first, 1.0);
        const Vector expected = expected_of(job, dtype, member, prescale, postscale);
        long double largest = 0;
        for (const long double value : expected) {
          largest = std::max(largest, std::fabs(value));
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
          ASSERT_NEAR(values[i], expected[i], rounding * std::max(std::fabs(expected[i]), 1e-3L * largest))
              << dtype_name(dtype) << ", member " << member << ", element " << i;
        }
      }
    }
  }
}

TEST_P(AdasumWorlds, ATensorGetsTheSameBitsFusedOrAlone) {
  std::vector<Job> together;
  together.push_back(job_of(size(), DType::float32, {100, 3000, 7}, 1, 1));
  together.front().expected.assign(1, {});
  const std::vector<std::int64_t> elements = {100, 3000, 7};
  ASSERT_EQ(world(tiny_slots(size()))->run_by_hand(together, 3), "");
  for (std::size_t member = 0; member < elements.size(); ++member) {
    std::vector<Job> alone;
    alone.push_back(job_of(size(), DType::float32, {elements[member]}, 1, 1));
    alone.front().expected.assign(1, {});
    for (std::size_t rank = 0; rank < alone.front().plans.size(); ++rank) {
      std::memcpy(alone.front().plans[rank].members[0].input.data, together.front().input_content[rank][member].data(),
                  together.front().input_content[rank][member].size());
    }
    ASSERT_EQ(world(tiny_slots(size()))->run_by_hand(alone, 5), "");
    EXPECT_EQ(alone.front().outputs[0][0].content(), together.front().outputs[0][member].content());
  }
}

// Between other operations of the channel, with threads, in pieces of more than one call.
TEST_P(AdasumWorlds, AmongOthers) {
  std::vector<Job> jobs;
  for (const std::int64_t elements : {1, 300'000, 5}) {
    jobs.push_back(job_of(size(), DType::float32, {elements}, 1, 1));
    jobs.back().expected.assign(1, {});
    JobSpec spec;
    spec.size = size();
    spec.elements = {elements, 3};
    jobs.push_back(make_job(spec));
  }
  EXPECT_EQ(world(transport::RegionLayout::for_size(size()))->run_threads(jobs), "");
  for (const Job& job : jobs) {
    for (const auto& rank : job.outputs) {
      EXPECT_EQ(rank[0].content(), job.outputs[0][0].content());
    }
  }
}

}  // namespace
}  // namespace ronde::collectives
