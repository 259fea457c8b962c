// What every kind of bucket must do, in worlds of 1, 2, 3, 5 and 8 ranks, over loopback and over processes' memory.
#include "collectives/persistent/bucket.h"

#include <gtest/gtest.h>

#include "collectives/budget.h"
#include "collectives/persistent/testing/bucket_world.h"
#include "store/memory_store.h"
#include "support/effort.h"
#include "transport/loopback/loopback.h"
#include "transport/shm/testing/processes.h"

namespace ronde::collectives {
namespace {

constexpr BucketKind kKinds[] = {BucketKind::inlined, BucketKind::staged, BucketKind::ordered, BucketKind::direct};
constexpr DType kTypes[] = {DType::uint8,   DType::int8,    DType::int32,   DType::int64,
                            DType::float16, DType::float32, DType::float64, DType::bfloat16};

/// Small thresholds, so that few elements meet every regime.
constexpr Thresholds kSmall = {.one_shot = 256, .chunk = 1024};

std::vector<std::unique_ptr<transport::HostArena>> loopback(int size) {
  return transport::make_loopback_world(size, transport::RegionLayout::for_size(size));
}

JobSpec spec_of(int size, std::vector<std::int64_t> elements, DType dtype = DType::float32) {
  JobSpec spec;
  spec.size = size;
  spec.dtype = dtype;
  spec.elements = std::move(elements);
  return spec;
}

class Buckets : public testing::TestWithParam<int> {
 protected:
  static void run(const std::vector<BucketCase>& cases) {
    for (int seed = 1; seed <= kOrdersByHand; ++seed) {
      BucketWorld world(loopback(GetParam()), cases, kSmall);
      ASSERT_TRUE(world.ok());
      EXPECT_EQ(world.run_by_hand(static_cast<std::uint64_t>(seed)), "");
    }
    BucketWorld world(loopback(GetParam()), cases, kSmall);
    EXPECT_EQ(world.run_threads(), "");
  }
};

TEST_P(Buckets, OfEveryTypeAndOperation) {
  for (const DType dtype : kTypes) {
    if (kUnderThreadSanitizer && dtype != DType::float32 && dtype != DType::bfloat16) {
      continue;  // threads meet in the same places whatever the type is
    }
    std::vector<BucketCase> cases;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      for (const BucketKind kind : kKinds) {
        const bool is_inline = kind == BucketKind::inlined;
        for (const std::int64_t elements : {1, is_inline ? 7 : 37, is_inline ? 3 : 1001}) {
          JobSpec spec = spec_of(GetParam(), {elements}, dtype);
          spec.reduce_op = op;
          cases.push_back(make_case(kind, spec, 2));
        }
      }
    }
    run(cases);
  }
}

TEST_P(Buckets, OfSizesAroundEveryThreshold) {
  std::vector<BucketCase> cases;
  for (const std::int64_t elements : {0, 1, 13, 14}) {
    cases.push_back(make_case(BucketKind::inlined, spec_of(GetParam(), {elements}), 3));
  }
  for (const std::int64_t lines : {0, 1, 2, 4, 8, 16, 32, 64}) {
    for (const std::int64_t beside : {-1, 0, 1}) {
      if (const std::int64_t elements = lines * 32 + beside; elements >= 0) {
        for (const BucketKind kind : {BucketKind::staged, BucketKind::ordered, BucketKind::direct}) {
          cases.push_back(make_case(kind, spec_of(GetParam(), {elements}), 3));
        }
      }
    }
  }
  run(cases);
}

TEST_P(Buckets, FusedOfMixedSizesWithScales) {
  std::vector<BucketCase> cases;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int32}) {
    for (const BucketKind kind : kKinds) {
      JobSpec spec = spec_of(GetParam(), {3, 0, 1, 2}, dtype);
      if (kind != BucketKind::inlined) {
        spec.elements = {1, 0, 3, 1, 17, 0, 0, 500, 2, 129, 1};
      }
      cases.push_back(make_case(kind, spec, 4));
      spec.prescale = 0.37;
      spec.postscale = 1.7;
      spec.reduce_op = ReduceOp::average;
      cases.push_back(make_case(kind, spec, 4));
    }
  }
  run(cases);
}

TEST_P(Buckets, HundredsOfInstancesWithoutAClosingBarrier) {
  std::vector<BucketCase> cases;
  for (const BucketKind kind : kKinds) {
    for (const std::int64_t elements : {2, 100, 800}) {
      if (kind != BucketKind::inlined || elements == 2) {
        cases.push_back(make_case(kind, spec_of(GetParam(), {elements}), effort(200)));
      }
    }
  }
  run(cases);
}

TEST_P(Buckets, OverTheMemoryOfProcesses) {
  transport::RegionLayout layout = transport::RegionLayout::for_size(GetParam());
  layout.heap_bytes = transport::kLoopbackHeapBytes;
  std::vector<BucketCase> cases;
  for (const BucketKind kind : kKinds) {
    for (const std::int64_t elements : {1, 13, 60, 3000}) {
      if (kind != BucketKind::inlined || elements <= 13) {
        cases.push_back(make_case(kind, spec_of(GetParam(), {elements, 1}), 20));
      }
    }
  }
  const auto results = transport::run_processes(layout, [&](transport::HostArena& arena) {
    BucketWorld world(arena, cases, kSmall);
    return world.ok() && world.run_rank(static_cast<std::size_t>(arena.rank())).empty();
  });
  EXPECT_EQ(results, std::vector<int>(static_cast<std::size_t>(GetParam()), 0));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Buckets, testing::Values(1, 2, 3, 5, 8));

TEST(BucketWords, OfAnotherEpochReadAsNothing) {
  BucketWord word;
  EXPECT_FALSE(word.has_reached(BucketWord::Codec::encode(1, 1)));
  EXPECT_EQ(word.instance(1), 0u);
  word.store(BucketWord::Codec::encode(3, 7));
  EXPECT_EQ(word.instance(3), 7u);
  EXPECT_EQ(word.instance(2), 0u);
  EXPECT_EQ(word.instance(4), 0u);
  EXPECT_TRUE(word.has_reached(BucketWord::Codec::encode(3, 7)));
  EXPECT_TRUE(word.has_reached(BucketWord::Codec::encode(3, 6)));
  EXPECT_FALSE(word.has_reached(BucketWord::Codec::encode(3, 8)));
  EXPECT_FALSE(word.has_reached(BucketWord::Codec::encode(4, 1)));
  EXPECT_FALSE(word.has_reached(BucketWord::Codec::encode(2, 1)));
  word.store(BucketWord::Codec::encode((1u << 24) - 1, BucketWord::Codec::kMaxInstance));
  EXPECT_TRUE(word.has_reached(BucketWord::Codec::encode((1u << 24) - 1, 1)));
  EXPECT_FALSE(word.has_reached(BucketWord::Codec::encode(0, 1)));
}

class EachKind : public testing::TestWithParam<BucketKind> {};

TEST_P(EachKind, CancelsWhatNotAllHavePublishedAndGoesOnInTheNextEpoch) {
  for (const std::int64_t elements : {3, 5000}) {
    if (GetParam() == BucketKind::inlined && elements > 14) {
      continue;
    }
    BucketWorld world(loopback(3), {make_case(GetParam(), spec_of(3, {elements}), 6)}, kSmall);
    ASSERT_TRUE(world.ok());
    bool moved = false;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      world.submit(rank, 0);
    }
    for (int step = 0; step < 200; ++step) {
      const std::size_t rank = static_cast<std::size_t>(step % 3);
      if (world.bucket(rank, 0).is_published()) {
        ASSERT_EQ(world.act(rank, 0, moved), "");
      }
    }
    // Two of three publish the second instance: nobody may finish it, and the words say so.
    world.submit(0, 0);
    world.submit(2, 0);
    for (const std::size_t rank : {0u, 2u}) {
      EXPECT_EQ(world.bucket(rank, 0).advance(), Progress::idle);
      EXPECT_EQ(world.bucket(rank, 0).waiting_for(), std::vector<int>{1});
      EXPECT_EQ(world.bucket(rank, 0).published_by(0), 2u);
      EXPECT_EQ(world.bucket(rank, 0).published_by(1), 1u);
      EXPECT_EQ(world.bucket(rank, 0).published_by(2), 2u);
      EXPECT_EQ(world.bucket(rank, 0).instance(), 1u);
    }
    for (const std::size_t rank : {0u, 2u}) {
      world.bucket(rank, 0).cancel();
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
      world.bucket(rank, 0).enter(2);
      EXPECT_EQ(world.bucket(rank, 0).published_by(0), 0u) << "words of the epoch before";
    }
    EXPECT_EQ(world.run_by_hand(5), "");
  }
}

TEST_P(EachKind, TouchesNoOutputBeforeAllHavePublished) {
  BucketWorld world(loopback(2), {make_case(GetParam(), spec_of(2, {5}), 1)}, kSmall);
  ASSERT_TRUE(world.ok());
  const std::vector<std::byte> before = world.job(0, 0).outputs[0][0].content();
  world.submit(0, 0);
  EXPECT_EQ(world.bucket(0, 0).advance(), Progress::idle);
  EXPECT_EQ(world.job(0, 0).outputs[0][0].content(), before);
}

TEST_P(EachKind, TheLastWakesWhoSleeps) {
  BucketWorld world(loopback(3), {make_case(GetParam(), spec_of(3, {5}), 1)}, kSmall);
  ASSERT_TRUE(world.ok());
  const auto state = [&](int rank) { return world.arena(0).control(rank).bell.state.load(); };
  world.submit(1, 0);
  transport::Sleeper(world.arena(0).control(1).bell).arm(transport::kEngineSleeps);
  world.submit(2, 0);
  transport::Sleeper(world.arena(0).control(2).bell).arm(transport::kEngineSleeps);
  EXPECT_EQ(state(1), transport::kEngineSleeps) << "it could not go on";
  world.submit(0, 0);
  EXPECT_EQ(state(1), transport::kAwake);
  EXPECT_EQ(state(2), transport::kAwake);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EachKind, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(bucket_kind_name(kind.param)); });

TEST(DirectBucket, MovesAtMostTheBudgetInOneStep) {
  constexpr std::int64_t kElements = 4'000'000;
  BucketWorld world(loopback(2), {make_case(BucketKind::direct, spec_of(2, {kElements}), 1)}, kSmall);
  ASSERT_TRUE(world.ok());
  world.submit(0, 0);
  world.submit(1, 0);
  std::size_t steps = 1;
  while (world.bucket(0, 0).advance() == Progress::again) {
    ++steps;
  }
  EXPECT_GE(steps, kElements * sizeof(float) / kBudgetBytes);
}

TEST(OrderedLane, WhoHasPublishedWithAllTheOthersWaitsForTheLeader) {
  BucketWorld world(loopback(3), {make_case(BucketKind::ordered, spec_of(3, {5000}), 1)}, kSmall);
  ASSERT_TRUE(world.ok());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    world.submit(rank, 0);
  }
  for (const std::size_t rank : {1u, 2u}) {
    EXPECT_EQ(world.bucket(rank, 0).advance(), Progress::idle);
    EXPECT_EQ(world.bucket(rank, 0).waiting_for(), std::vector<int>{0});
  }
  EXPECT_EQ(world.run_by_hand(1), "");
}

TEST(OrderedLane, ExecutesInTheLeadersOrderWhateverTheOrderOfSubmission) {
  std::vector<BucketCase> cases;
  for (int each = 0; each < 3; ++each) {
    cases.push_back(make_case(BucketKind::ordered, spec_of(2, {1000}), 1));
  }
  BucketWorld world(loopback(2), std::move(cases), kSmall);
  ASSERT_TRUE(world.ok());
  for (const std::size_t index : {2u, 0u, 1u}) {
    world.submit(0, index);
  }
  for (const std::size_t index : {0u, 1u, 2u}) {
    world.submit(1, index);
  }
  // The follower can do nothing before the leader has looked.
  for (const std::size_t index : {0u, 1u, 2u}) {
    EXPECT_EQ(world.bucket(1, index).advance(), Progress::idle);
  }
  // The leader looks at 1 first, so 1 it is, on both.
  EXPECT_NE(world.bucket(0, 1).advance(), Progress::done);
  EXPECT_EQ(world.bucket(1, 0).advance(), Progress::idle);
  EXPECT_NE(world.bucket(1, 1).advance(), Progress::idle);
  EXPECT_EQ(world.run_by_hand(1), "");
}

}  // namespace
}  // namespace ronde::collectives
