#include "collectives/gather_list.h"

#include <gtest/gtest.h>

namespace ronde::collectives {
namespace {

using Bytes = std::vector<std::byte>;

Bytes counting(std::size_t bytes, int from) {
  Bytes content(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    content[i] = static_cast<std::byte>(from + static_cast<int>(i));
  }
  return content;
}

struct Pieces {
  Pieces() {
    int from = 0;
    for (const std::size_t bytes : {3u, 0u, 5u, 1u}) {
      sources.push_back(counting(bytes, from));
      targets.emplace_back(bytes);
      from += static_cast<int>(bytes);
      list.append(sources.back().data(), targets.back().data(), bytes);
    }
  }
  std::vector<Bytes> sources;
  std::vector<Bytes> targets;
  GatherList list;
};

TEST(GatherList, EmptyHasNoBytes) {
  const GatherList list;
  EXPECT_EQ(list.bytes(), 0u);
  list.gather(0, 0, nullptr);
}

TEST(GatherList, GathersAnyRange) {
  const Pieces pieces;
  ASSERT_EQ(pieces.list.bytes(), 9u);
  const Bytes all = counting(9, 0);
  for (std::size_t begin = 0; begin <= 9; ++begin) {
    for (std::size_t end = begin; end <= 9; ++end) {
      Bytes got(end - begin);
      pieces.list.gather(begin, end, got.data());
      EXPECT_EQ(
          got, Bytes(all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)));
    }
  }
}

TEST(GatherList, ScattersAnyRangeAndNothingElse) {
  for (std::size_t begin = 0; begin <= 9; ++begin) {
    for (std::size_t end = begin; end <= 9; ++end) {
      const Pieces pieces;
      pieces.list.scatter(begin, end, counting(end - begin, 100).data());
      std::size_t at = 0;
      for (const Bytes& target : pieces.targets) {
        for (const std::byte each : target) {
          const bool inside = at >= begin && at < end;
          EXPECT_EQ(each, inside ? static_cast<std::byte>(100 + at - begin) : std::byte{0});
          ++at;
        }
      }
    }
  }
}

TEST(GatherList, CarriesOver) {
  const Pieces pieces;
  pieces.list.carry_over(2, 9);
  EXPECT_EQ(pieces.targets[0], (Bytes{std::byte{0}, std::byte{0}, std::byte{2}}));
  EXPECT_EQ(pieces.targets[2], pieces.sources[2]);
  EXPECT_EQ(pieces.targets[3], pieces.sources[3]);
}

TEST(GatherList, OfAPlanIsItsMembersInOrder) {
  std::vector<float> a{1, 2}, b{3}, out_a(2), out_b(1);
  Plan plan;
  plan.members.push_back({"a", {a.data(), DType::float32, {2}, {}}, {out_a.data(), DType::float32, {2}, {}}});
  plan.members.push_back({"none", {nullptr, DType::float32, {0}, {}}, {nullptr, DType::float32, {0}, {}}});
  plan.members.push_back({"b", {b.data(), DType::float32, {1}, {}}, {out_b.data(), DType::float32, {1}, {}}});
  const GatherList list(plan);
  EXPECT_EQ(list.bytes(), 12u);
  list.carry_over(0, 12);
  EXPECT_EQ(out_a, a);
  EXPECT_EQ(out_b, b);
}

}  // namespace
}  // namespace ronde::collectives
