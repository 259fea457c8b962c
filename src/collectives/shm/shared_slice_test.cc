#include "collectives/shm/shared_slice.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/shm/testing/world.h"
#include "support/effort.h"

namespace ronde::collectives {
namespace {

TEST(SharedSlice, EveryByteHasOneOwnerAndNoLineHasTwo) {
  std::mt19937_64 random(5);
  for (const int ranks : {1, 2, 3, 5, 8, 31}) {
    for (int round = 0; round < effort(200); ++round) {
      std::vector<SharedTensor> tensors;
      std::size_t at = random() % 32 * 8;
      for (std::uint64_t count = 1 + random() % 4; count > 0; --count) {
        tensors.push_back({{static_cast<std::int64_t>(at)}, random() % (round % 2 == 0 ? 100 : 5000) * 8});
        at += (tensors.back().bytes + transport::kLineBytes - 1) / transport::kLineBytes * transport::kLineBytes +
              transport::kLineBytes;
      }
      std::vector<int> owner(at, -1);
      for (int rank = 0; rank < ranks; ++rank) {
        for (const Extent& extent : slice_of(tensors, ranks, rank)) {
          ASSERT_GT(extent.bytes, 0u);
          const std::size_t offset = static_cast<std::size_t>(tensors[extent.tensor].places[0].input) + extent.begin;
          for (std::size_t byte = offset; byte < offset + extent.bytes; ++byte) {
            ASSERT_EQ(owner[byte], -1);
            owner[byte] = rank;
          }
        }
      }
      for (const SharedTensor& tensor : tensors) {
        const auto offset = static_cast<std::size_t>(tensor.places[0].input);
        for (std::size_t byte = offset; byte < offset + tensor.bytes; ++byte) {
          ASSERT_NE(owner[byte], -1);
          if (byte > offset && byte % transport::kLineBytes != 0) {
            ASSERT_EQ(owner[byte], owner[byte - 1]) << "a line of two ranks";
          }
        }
      }
    }
  }
}

TEST(SharedSlice, OfALargeTensorIsAnEqualPart) {
  for (int rank = 0; rank < 4; ++rank) {
    const auto mine = slice_of({{{256}, 4 << 20}}, 4, rank);
    ASSERT_EQ(mine.size(), 1u);
    EXPECT_EQ(mine[0].bytes, std::size_t{1} << 20);
    EXPECT_EQ(mine[0].begin, static_cast<std::size_t>(rank) * (1 << 20));
  }
}

TEST(SharedSlice, OfATinyTensorIsOneRanksAltogether) {
  EXPECT_EQ(slice_of({{{16}, 24}}, 4, 0).size(), 1u);
  EXPECT_EQ(slice_of({{{16}, 24}}, 4, 0)[0].bytes, 24u);
  EXPECT_TRUE(slice_of({{{16}, 24}}, 4, 3).empty());
  EXPECT_TRUE(slice_of({{{16}, 0}}, 4, 0).empty());
}

/// Gives the job's tensors places in the heaps from `at` on, off the lines and elsewhere on each rank; of every other
/// one the result goes elsewhere, on all ranks but the last. Where they end.
std::size_t move_to_heaps(Job& job, const std::vector<std::byte*>& heaps, std::size_t at) {
  for (std::size_t member = 0; member < job.expected[0].size(); ++member) {
    at += 16;
    MemoryPlaces places;
    const std::size_t room = (job.expected[0][member].size() / transport::kLineBytes + 2) * transport::kLineBytes;
    const std::size_t ranks_room = (heaps.size() + 1) * transport::kLineBytes;
    for (std::size_t rank = 0; rank < heaps.size(); ++rank) {
      const auto from = static_cast<std::int64_t>(at + (heaps.size() - rank) * transport::kLineBytes);
      const bool is_elsewhere = member % 2 == 1 && rank + 1 < heaps.size();
      places.emplace_back(from, is_elsewhere ? from + static_cast<std::int64_t>(room + ranks_room) : from);
    }
    for (std::size_t rank = 0; rank < heaps.size(); ++rank) {
      PlanMember& entry = job.plans[rank].members[member];
      std::byte* const place = heaps[rank] + places[rank].input;
      std::memcpy(place, entry.input.data, entry.input.bytes());
      entry.input.data = place;
      entry.output.data = heaps[rank] + places[rank].output;
      entry.places = places;
    }
    at += 2 * (room + ranks_room);
  }
  return at;
}

/// Jobs whose tensors lie in the heaps, beside others whose do not, through the negotiated path.
class DirectAllreduce : public testing::TestWithParam<int> {};

TEST_P(DirectAllreduce, BesideTheOtherAlgorithmsGivesTheSameBits) {
  const auto size = static_cast<std::size_t>(GetParam());
  auto arenas = transport::make_loopback_world(GetParam(), tiny_slots(GetParam()));
  ASSERT_EQ(arenas.size(), size);
  std::vector<std::byte*> heaps;
  for (const auto& arena : arenas) {
    ASSERT_TRUE(arena->own_heap().commit(0, 8 << 20));
    heaps.push_back(arena->heap(arena->rank()));
  }
  World world(std::move(arenas));
  std::size_t at = 0;
  std::vector<Job> jobs;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int8, DType::float64}) {
    for (const std::int64_t elements : {1, 31, 1000, 5001}) {
      JobSpec spec;
      spec.size = GetParam();
      spec.dtype = dtype;
      spec.elements = {elements, 1, 77};
      spec.in_place = true;
      spec.reduce_op = elements == 31 ? ReduceOp::average : ReduceOp::sum;
      spec.postscale = elements == 1000 ? 0.5 : 1.0;
      jobs.push_back(make_job(spec));
      at = move_to_heaps(jobs.back(), heaps, at);
      jobs.push_back(make_job(spec));
    }
  }
  ASSERT_LE(at, std::size_t{8} << 20);
  // What run_by_hand compares are the jobs' own buffers, so here the steps are its own.
  std::mt19937_64 random(3);
  for (std::size_t index = 0; index < jobs.size(); ++index) {
    std::vector<std::unique_ptr<Operation>> operations(size);
    for (std::size_t rank = 0; rank < size; ++rank) {
      operations[rank] = world.begin(rank, jobs[index].plans[rank]);
    }
    std::size_t left = size;
    for (int step = 0; left > 0 && step < 100000; ++step) {
      const std::size_t rank = random() % size;
      if (operations[rank] != nullptr && operations[rank]->advance() == Progress::done) {
        EXPECT_TRUE(operations[rank]->waiting_for().empty());
        operations[rank].reset();
        --left;
      }
    }
    ASSERT_EQ(left, 0u);
    for (std::size_t rank = 0; rank < size; ++rank) {
      for (std::size_t member = 0; member < 3; ++member) {
        const Tensor& output = jobs[index].plans[rank].members[member].output;
        EXPECT_EQ(std::memcmp(output.data, jobs[index].expected[0][member].data(), output.bytes()), 0)
            << "job " << index << ", rank " << rank << ", member " << member;
        const Tensor& input = jobs[index].plans[rank].members[member].input;
        if (input.data != output.data) {
          EXPECT_EQ(std::memcmp(input.data, jobs[index].input_content[rank][member].data(), input.bytes()), 0)
              << "an input that is not the output is left alone";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, DirectAllreduce, testing::Values(1, 2, 3, 5, 8));

}  // namespace
}  // namespace ronde::collectives
