// What every collective must do, through shared memory and as messages, in worlds of 1, 2, 3, 5 and 8 ranks,
// and between hosts of several ranks.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/testing/worlds.h"
#include "collectives/tuning/table.h"
#include "support/effort.h"

namespace ronde::collectives {
namespace {

constexpr DType kAllTypes[] = {
    DType::uint8,      DType::int8,        DType::int16,       DType::int32,   DType::uint16,   DType::int64,
    DType::float16,    DType::float32,     DType::float64,     DType::boolean, DType::bfloat16, DType::complex64,
    DType::complex128, DType::float8_e4m3, DType::float8_e5m2, DType::uint32,  DType::uint64};

bool can_reduce(DType dtype, ReduceOp op) { return reduce::supports({dtype, op, 1.0, 1.0}).is_ok(); }

class Conformance : public testing::TestWithParam<MediumAndSize> {
 protected:
  int size() const { return GetParam().size; }
  std::unique_ptr<JobWorld> world(const transport::RegionLayout& layout,
                                  const Thresholds& thresholds = kTinyThresholds) const {
    return make_world(GetParam().medium, layout, thresholds);
  }
  JobSpec in_world(JobSpec spec) const {
    if (GetParam().medium == Medium::hosts) {
      spec.first_of = first_of_hosts(size());
    }
    return spec;
  }
  JobSpec spec(OpKind kind, std::vector<std::int64_t> elements) const {
    JobSpec spec;
    spec.kind = kind;
    spec.size = size();
    spec.elements = std::move(elements);
    return in_world(std::move(spec));
  }
  /// By hand, then with threads.
  void run(const transport::RegionLayout& layout, const std::vector<JobSpec>& specs) {
    for (int seed = 1; seed <= kOrdersByHand; ++seed) {
      EXPECT_EQ(world(layout)->run_by_hand(make_jobs(specs), static_cast<std::uint64_t>(seed)), "");
    }
    EXPECT_EQ(world(layout)->run_threads(make_jobs(specs)), "");
  }
  static std::vector<Job> make_jobs(const std::vector<JobSpec>& specs) {
    std::vector<Job> jobs;
    for (const JobSpec& each : specs) {
      jobs.push_back(make_job(each));
    }
    return jobs;
  }
};

TEST_P(Conformance, AllreduceOfSizesAroundEveryThreshold) {
  const auto limit = static_cast<std::int64_t>(kTinyThresholds.one_shot / sizeof(float));
  std::vector<JobSpec> specs;
  for (const std::int64_t slots : {0, 1, 2, 4, 5, 9}) {
    for (const std::int64_t beside : {-1, 0, 1, 7}) {
      if (const std::int64_t elements = slots * limit + beside; elements >= 0) {
        specs.push_back(spec(OpKind::allreduce, {elements}));
        specs.back().in_place = elements % 2 == 0;
        specs.push_back(specs.back());
        specs.back().in_place = !specs.back().in_place;
      }
    }
  }
  for (const int slots : {2, 3, 4}) {
    run(tiny_slots(size(), slots), specs);
  }
}

TEST_P(Conformance, AllreduceHasTheSameBitsInEveryRegime) {
  std::vector<JobSpec> specs;
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::int32}) {
    for (const std::int64_t elements : {100, 3001}) {
      for (const bool in_place : {false, true}) {
        specs.push_back(spec(OpKind::allreduce, {elements, 3, elements}));
        specs.back().dtype = dtype;
        specs.back().in_place = in_place;
        specs.back().reduce_op = ReduceOp::average;
      }
    }
  }
  for (const std::uint64_t one_shot : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
    for (const std::uint64_t stream : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
      for (const std::uint64_t chunk : {128, 300, 512}) {
        if (kOrdersByHand == 0 && chunk != 300) {
          continue;
        }
        const Thresholds thresholds = {.one_shot = one_shot, .chunk = chunk, .stream = stream};
        EXPECT_EQ(world(tiny_slots(size()), thresholds)->run_by_hand(make_jobs(specs), chunk), "");
      }
    }
  }
}

TEST_P(Conformance, AllreduceOfEveryTypeAndOperation) {
  std::vector<JobSpec> specs;
  for (const DType dtype : kAllTypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product,
                              ReduceOp::bit_and, ReduceOp::bit_or, ReduceOp::bit_xor}) {
      if (!can_reduce(dtype, op)) {
        continue;
      }
      for (const std::int64_t elements : {1, 37, 1001}) {
        specs.push_back(spec(OpKind::allreduce, {elements}));
        specs.back().dtype = dtype;
        specs.back().reduce_op = op;
        specs.back().in_place = elements == 37;
        specs.back().seed = specs.size();
      }
    }
  }
  ASSERT_GE(specs.size(), 8u * 5u * 3u) << "eight types and five operations at least";
  run(tiny_slots(size()), specs);
}

TEST_P(Conformance, AllreduceScalesOnceHoweverLarge) {
  std::vector<JobSpec> specs;
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::float64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      for (const std::int64_t elements : {3, 2001}) {
        specs.push_back(spec(OpKind::allreduce, {elements}));
        specs.back().dtype = dtype;
        specs.back().reduce_op = op;
        specs.back().prescale = 0.37;
        specs.back().postscale = 1.7;
      }
    }
  }
  run(tiny_slots(size()), specs);
}

/// Small whole numbers, whose sums every type holds exactly, against a sum in double.
template <typename T>
void expect_exact_sums(JobWorld& world, DType dtype) {
  const auto size = static_cast<int>(world.size());
  JobSpec spec;
  spec.size = size;
  spec.dtype = dtype;
  spec.elements = {5, 0, 700, 1};
  Job job = make_job(spec);
  job.expected.assign(1, {});
  for (std::size_t member = 0; member < spec.elements.size(); ++member) {
    std::vector<std::byte> expected;
    for (std::size_t i = 0; i < static_cast<std::size_t>(spec.elements[member]); ++i) {
      double sum = 0;
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
        const auto value = static_cast<T>((i * 7 + rank * 5 + member) % 11);
        std::memcpy(job.inputs[rank][member].data() + i * sizeof value, &value, sizeof value);
        sum += static_cast<double>(value);
      }
      const auto value = static_cast<T>(sum);
      const auto* raw = reinterpret_cast<const std::byte*>(&value);
      expected.insert(expected.end(), raw, raw + sizeof value);
    }
    job.expected[0].push_back(std::move(expected));
  }
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
    for (std::size_t member = 0; member < spec.elements.size(); ++member) {
      job.input_content[rank][member] = job.inputs[rank][member].content();
    }
  }
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  EXPECT_EQ(world.run_by_hand(jobs, 1), "") << dtype_name(dtype);
}

TEST_P(Conformance, SumsAreTheSumsInDouble) {
  expect_exact_sums<float>(*world(tiny_slots(size())), DType::float32);
  expect_exact_sums<double>(*world(tiny_slots(size())), DType::float64);
  expect_exact_sums<std::int8_t>(*world(tiny_slots(size())), DType::int8);
  expect_exact_sums<std::uint8_t>(*world(tiny_slots(size())), DType::uint8);
  expect_exact_sums<std::int32_t>(*world(tiny_slots(size())), DType::int32);
  expect_exact_sums<std::int64_t>(*world(tiny_slots(size())), DType::int64);
}

TEST_P(Conformance, FusedPlansOfMixedSizes) {
  std::vector<JobSpec> specs;
  for (const DType dtype : {DType::float32, DType::uint8, DType::float64}) {
    specs.push_back(spec(OpKind::allreduce, {1, 0, 3, 1, 17, 0, 0, 500, 2, 129, 1}));
    specs.push_back(spec(OpKind::allreduce, {1, 1, 1, 1}));
    specs.push_back(spec(OpKind::allreduce, std::vector<std::int64_t>(300, 3)));
    specs.push_back(spec(OpKind::allreduce, {0, 0}));
    for (std::size_t i = specs.size() - 4; i < specs.size(); ++i) {
      specs[i].dtype = dtype;
      specs[i].in_place = i % 2 == 0;
    }
  }
  run(tiny_slots(size()), specs);
}

TEST_P(Conformance, BroadcastFromEveryRoot) {
  std::vector<JobSpec> specs;
  for (int root = 0; root < size(); ++root) {
    for (const DType dtype : kAllTypes) {
      specs.push_back(spec(OpKind::broadcast, {1, 0, 700, 3}));
      specs.back().dtype = dtype;
      specs.back().root = root;
      specs.back().in_place = static_cast<int>(dtype) % 2 == 0;
    }
  }
  specs.push_back(spec(OpKind::broadcast, {0}));
  specs.push_back(spec(OpKind::broadcast, {128}));
  specs.push_back(spec(OpKind::broadcast, {5L * 128}));
  run(tiny_slots(size()), specs);
}

TEST_P(Conformance, AllgatherOfDifferentRows) {
  std::vector<JobSpec> specs;
  const auto add = [&](std::vector<std::int64_t> elements, auto rows_of) {
    specs.push_back(spec(OpKind::allgather, std::move(elements)));
    for (std::size_t member = 0; member < specs.back().elements.size(); ++member) {
      specs.back().rows.emplace_back();
      for (int rank = 0; rank < size(); ++rank) {
        specs.back().rows.back().push_back(rows_of(member, rank));
      }
    }
    specs.push_back(specs.back());
    specs.back().in_place = true;
  };
  add({1}, [](std::size_t, int) { return 1; });
  add({3}, [](std::size_t, int rank) { return rank * 50; });
  add({3}, [](std::size_t, int rank) { return rank == 0 ? 1000 : 0; });
  add({7}, [](std::size_t, int) { return 0; });
  add({0, 2}, [](std::size_t, int) { return 4; });
  add({1, 5, 64, 2}, [](std::size_t member, int rank) { return (rank + 1) * static_cast<int>(member) % 4; });
  add({64}, [](std::size_t, int) { return 20; });
  run(tiny_slots(size()), specs);
}

TEST_P(Conformance, ReducescatterOfRowsThatDoNotDivide) {
  std::vector<JobSpec> specs;
  for (const std::int64_t rows : {0, 1, 2, 7, 8, 40, 1000}) {
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::uint8}) {
      specs.push_back(spec(OpKind::reducescatter, {1, 3, 16}));
      specs.back().rows.assign(3, scattered_rows(rows, size()));
      specs.back().dtype = dtype;
      specs.back().reduce_op = rows % 2 == 0 ? ReduceOp::sum : ReduceOp::average;
      specs.back().prescale = rows == 7 ? 0.37 : 1.0;
      specs.back().postscale = rows == 40 ? 1.7 : 1.0;
      specs.back().seed = specs.size();
    }
  }
  for (const int slots : {2, 3, 4}) {
    run(tiny_slots(size(), slots), specs);
  }
}

TEST_P(Conformance, AlltoallOfDifferentRows) {
  std::vector<JobSpec> specs;
  const auto add = [&](std::vector<std::int64_t> elements, auto rows_of) {
    specs.push_back(spec(OpKind::alltoall, std::move(elements)));
    specs.back().dtype = specs.size() % 2 == 0 ? DType::float32 : DType::int8;
    for (std::size_t member = 0; member < specs.back().elements.size(); ++member) {
      specs.back().rows.emplace_back();
      for (int from = 0; from < size(); ++from) {
        for (int to = 0; to < size(); ++to) {
          specs.back().rows.back().push_back(rows_of(from, to));
        }
      }
    }
  };
  add({1}, [](int, int) { return 1; });
  add({64}, [](int, int) { return 20; });
  add({7}, [](int, int) { return 0; });
  add({3}, [](int from, int to) { return from * 30 + to; });
  add({3}, [](int from, int to) { return from == 0 && to == 0 ? 1000 : 0; });
  add({3}, [this](int from, int to) { return from == 0 && to == size() - 1 ? 1000 : 0; });
  add({0, 2, 5}, [](int from, int to) { return (from + to) % 4; });
  for (const int slots : {2, 3, 4}) {
    run(tiny_slots(size(), slots), specs);
  }
}

TEST_P(Conformance, GatherAndScatterAtEveryRoot) {
  std::vector<JobSpec> specs;
  for (int root = 0; root < size(); ++root) {
    const bool is_last = root + 1 == size();
    for (const std::int64_t rows : {0, 1, 7, 40, is_last ? 300 : 2}) {
      for (const OpKind kind : {OpKind::gather, OpKind::scatter}) {
        specs.push_back(spec(kind, {1, 3, 16}));
        specs.back().root = root;
        specs.back().dtype = rows % 2 == 0 ? DType::complex128 : DType::uint8;
        std::vector<std::int64_t> pairs;
        for (int from = 0; from < size(); ++from) {
          for (int to = 0; to < size(); ++to) {
            const bool takes_part = root == (kind == OpKind::gather ? to : from);
            pairs.push_back(takes_part ? rows / ((from + to) % 3 + 1) : 0);
          }
        }
        specs.back().rows.assign(3, pairs);
        specs.back().seed = specs.size();
      }
    }
  }
  for (const int slots : {2, 3, 4}) {
    run(tiny_slots(size(), slots), specs);
  }
}

TEST_P(Conformance, ReduceAtEveryRootLeavesTheOthersAlone) {
  std::vector<JobSpec> specs;
  for (int root = 0; root < size(); ++root) {
    for (const std::int64_t elements : {0, 1, 7, 1001}) {
      for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::uint8, DType::complex128}) {
        for (const bool in_place : {false, true}) {
          if (root > 1 && in_place != (dtype == DType::float32)) {
            continue;  // which root it is matters, and how it is stored, but not both together
          }
          specs.push_back(spec(OpKind::reduce, {elements, 3, elements}));
          specs.back().root = root;
          specs.back().dtype = dtype;
          specs.back().in_place = in_place;
          specs.back().reduce_op = elements == 7 ? ReduceOp::average : ReduceOp::sum;
          specs.back().prescale = elements == 7 ? 0.37 : 1.0;
          specs.back().seed = specs.size();
        }
      }
    }
  }
  for (const int slots : {2, 3}) {
    run(tiny_slots(size(), slots), specs);
  }
}

TEST_P(Conformance, ScansOfEveryTypeAndReduction) {
  std::vector<JobSpec> specs;
  for (const OpKind kind : {OpKind::scan, OpKind::exscan}) {
    for (const std::int64_t elements : {0, 1, 7, 1001}) {
      for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::uint8, DType::complex128}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::max}) {
          if (op == ReduceOp::max && dtype == DType::complex128) {
            continue;
          }
          specs.push_back(spec(kind, {elements, 3, elements}));
          specs.back().dtype = dtype;
          specs.back().reduce_op = op;
          specs.back().in_place = specs.size() % 2 == 0;
          specs.back().prescale = elements == 7 ? 0.37 : 1.0;
          specs.back().postscale = elements == 7 ? 3.0 : 1.0;
          specs.back().seed = specs.size();
        }
      }
    }
  }
  for (const int slots : {2, 3}) {
    run(tiny_slots(size(), slots), specs);
  }
}

TEST_P(Conformance, ThousandsOfMixedPlansBackToBack) {
  std::mt19937_64 random(static_cast<std::uint64_t>(size()));
  for (const int slots : {2, 3, 4}) {
    std::vector<JobSpec> specs;
    for (int i = 0; i < effort(300); ++i) {
      specs.push_back(in_world(random_spec(size(), 6000, random)));
    }
    run(tiny_slots(size(), slots), specs);
  }
}

TEST_P(Conformance, ThousandsOfSmallAllreduces) {
  std::vector<JobSpec> specs(static_cast<std::size_t>(effort(1000)), spec(OpKind::allreduce, {1}));
  run(transport::RegionLayout::for_size(size()), specs);
}

TEST_P(Conformance, MegabytesWithTheDefaultSlots) {
  const std::int64_t many = kFullEffort ? 600'000 : 100'000;
  std::vector<JobSpec> specs;
  specs.push_back(spec(OpKind::allreduce, {many / 3 + 1}));
  specs.push_back(spec(OpKind::allreduce, {65'536, 1, many, 77}));
  specs.back().in_place = true;
  specs.push_back(spec(OpKind::allreduce, {8191, 1, 1}));
  specs.push_back(spec(OpKind::broadcast, {many / 2}));
  specs.push_back(spec(OpKind::allgather, {1000}));
  specs.back().rows = {std::vector<std::int64_t>(static_cast<std::size_t>(size()), 90)};
  specs.push_back(spec(OpKind::reducescatter, {1000}));
  specs.back().rows = {scattered_rows(901, size())};
  specs.push_back(spec(OpKind::alltoall, {1000}));
  specs.back().rows = {std::vector<std::int64_t>(static_cast<std::size_t>(size() * size()), 90)};
  const auto large = world(transport::RegionLayout::for_size(size()), Table::built_in().of(size()));
  if (kOrdersByHand != 0) {
    EXPECT_EQ(large->run_by_hand(make_jobs(specs), 3), "");
  }
  EXPECT_EQ(large->run_threads(make_jobs(specs)), "");
}

class HeldUpMessages : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, HeldUpMessages, testing::Values(2, 3, 5, 8));

// Whatever the order in which links deliver: what some of them carry comes only when nothing else can happen.
TEST_P(HeldUpMessages, OfMixedPlans) {
  const int size = GetParam();
  std::mt19937_64 random(static_cast<std::uint64_t>(100 + size));
  for (int round = 0; round < effort(30); ++round) {
    std::vector<Job> jobs;
    for (int i = 0; i < 4; ++i) {
      jobs.push_back(make_job(random_spec(size, 6000, random)));
    }
    MessageWorld world(size, 2);
    world.hold_some(random);
    EXPECT_EQ(world.run_by_hand(jobs, random()), "") << round;
  }
}

TEST_P(HeldUpMessages, OfMixedPlansBetweenHosts) {
  const int size = GetParam();
  std::mt19937_64 random(static_cast<std::uint64_t>(200 + size));
  for (int round = 0; round < effort(60); ++round) {
    std::vector<int> first_of;
    for (int rank = 0; rank < size; ++rank) {
      const auto other = static_cast<std::size_t>(random() % (static_cast<std::uint64_t>(rank) + 1));
      first_of.push_back(other == static_cast<std::size_t>(rank) ? rank : first_of[other]);
    }
    std::vector<Job> jobs;
    for (int i = 0; i < 4; ++i) {
      JobSpec spec = random_spec(size, 20000, random);
      spec.first_of = first_of;
      jobs.push_back(make_job(spec));
    }
    MessageWorld world(RankLayout(first_of), 1 + random() % 3);
    world.hold_some(random);
    EXPECT_EQ(world.run_by_hand(jobs, random()), "") << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Conformance,
                         testing::ValuesIn(with_hosts(every_medium({1, 2, 3, 5, 8}), {3, 4, 5, 6, 7, 8})),
                         [](const auto& each) { return name_of(each.param); });

}  // namespace
}  // namespace ronde::collectives
