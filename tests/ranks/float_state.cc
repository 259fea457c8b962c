// Ranks whose threads have set their floating-point unit otherwise (torch.set_flush_denormal(), fesetround()): which of
// them executes a reduction is chance, and the bits are the same on all of them all the same.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <ronde/ronde.hpp>
#include <string>
#include <vector>

#include "support/float_state.h"
#include "support/rank_test.h"

namespace {

/// An element of a type that C++ has no name for.
template <ronde::DType dtype, typename Bits>
struct Element {
  Bits bits;
};
using Half = Element<ronde::DType::float16, std::uint16_t>;
using Brain = Element<ronde::DType::bfloat16, std::uint16_t>;
using E4M3 = Element<ronde::DType::float8_e4m3, std::uint8_t>;
using E5M2 = Element<ronde::DType::float8_e5m2, std::uint8_t>;

}  // namespace

template <ronde::DType dtype, typename Bits>
struct ronde::DTypeOf<Element<dtype, Bits>> : ronde::DTypeIs<dtype> {};

namespace ronde::test {
namespace {

constexpr int kSteps = 12;  ///< of which the first are negotiation, the others replay

/// Numbers that another rounding rounds otherwise, and every other one so small that sums and averages are subnormal.
/// Nothing infinite, no NaN.
void fill(std::span<std::byte> values, std::size_t element, unsigned seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::byte>(random());
    const std::size_t top = element - 1 - i % element;  // 0: sign and high exponent bits
    if (top == 0) {
      values[i] &= i / element % 2 == 0 ? std::byte{0xb7} : std::byte{0x80};
    } else if (top == 1 && i / element % 2 == 1) {
      values[i] &= std::byte{0x0f};
    }
  }
}

/// 64-bit FNV-1a.
std::uint64_t digest(std::span<const std::byte> bytes, std::uint64_t hash) {
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

/// The bits of kSteps results, of which `mixed` says whether each rank computes under a state of its own.
template <typename T>
std::uint64_t digest_of(std::span<T> values, std::string_view name, Op op, bool mixed) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (int step = 0; step < kSteps; ++step) {
    fill(std::as_writable_bytes(values), sizeof(T), static_cast<unsigned>(step * size() + test::rank()));
    const auto own = static_cast<std::size_t>(mixed ? test::rank() + step : 0);
    {
      const WithFloatState with(kFloatStates[own % kFloatStates.size()]);
      ronde::allreduce(values, {.name = name, .op = op, .prescale = op == Op::sum ? 1 : 0.7});
    }
    hash = digest(std::as_bytes(values), hash);
  }
  return hash;
}

/// The same number on every rank.
void expect_same_everywhere(std::uint64_t number, const std::string& what) {
  const std::string file = folder() + "/digest.";
  std::ofstream(file + std::to_string(test::rank())) << number;
  meet();
  for (int r = 0; r < size(); ++r) {
    std::uint64_t other = 0;
    std::ifstream(file + std::to_string(r)) >> other;
    EXPECT_EQ(other, number) << what << ", rank " << r;
  }
  meet();
}

class FloatState : public testing::Test {
 protected:
  /// The engine's own thread begins with the state of the thread that makes it.
  static void SetUpTestSuite() {
    const WithFloatState with(kFloatStates[static_cast<std::size_t>(test::rank()) % kFloatStates.size()]);
    ronde::init();
  }
  static void TearDownTestSuite() { ronde::shutdown(); }

  /// Inline, one-shot, in two phases, ordered, and in the tensors themselves.
  template <typename T>
  static void expect_same_bits(const std::string& type) {
    for (const std::size_t bytes :
         {std::size_t{8}, std::size_t{4} << 10, std::size_t{32} << 10, std::size_t{100} << 10}) {
      for (const Op op : {Op::sum, Op::average}) {
        std::vector<T> values(bytes / sizeof(T));
        check(std::span(values), op, type + " " + std::to_string(bytes));
      }
    }
    SharedBuffer buffer("shared " + type, std::size_t{64} << 10);
    check(buffer.as<T>(), Op::sum, type + " shared");
  }

  template <typename T>
  static void check(std::span<T> values, Op op, const std::string& what) {
    const std::string name = what + (op == Op::sum ? " sum" : op == Op::average ? " average" : " adasum");
    const std::uint64_t expected = digest_of(values, name, op, false);
    const std::uint64_t mixed = digest_of(values, name, op, true);
    EXPECT_EQ(mixed, expected) << name;
    expect_same_everywhere(mixed, name);
  }
};

TEST_F(FloatState, OfFloat32) { expect_same_bits<float>("float32"); }
TEST_F(FloatState, OfFloat64) { expect_same_bits<double>("float64"); }
TEST_F(FloatState, OfFloat16) { expect_same_bits<Half>("float16"); }
TEST_F(FloatState, OfBfloat16) { expect_same_bits<Brain>("bfloat16"); }
TEST_F(FloatState, OfFloat8) {
  expect_same_bits<E4M3>("float8_e4m3");
  expect_same_bits<E5M2>("float8_e5m2");
}

TEST_F(FloatState, OfAdasum) {
  std::vector<float> values(50001);
  check(std::span(values), Op::adasum, "float32");
  std::vector<Half> halves(50001);
  check(std::span(halves), Op::adasum, "float16");
}

TEST_F(FloatState, OfReduceScatterToo) {
  const auto bits_of = [](bool mixed) {
    std::vector<float> values(30000);
    fill(std::as_writable_bytes(std::span(values)), sizeof(float), static_cast<unsigned>(test::rank()));
    const auto own = static_cast<std::size_t>(mixed ? test::rank() + 1 : 0);
    const WithFloatState with(kFloatStates[own % kFloatStates.size()]);
    const auto part = ronde::reducescatter<float>(values, {.name = "part", .op = Op::average});
    return digest(std::as_bytes(part.view()), 1);
  };
  EXPECT_EQ(bits_of(true), bits_of(false));
}

TEST_F(FloatState, TheCallersStateIsItsOwnAfterwards) {
  float value[2] = {1, 2};
  for (const auto& state : kFloatStates) {
    const WithFloatState with(state);
    for (int i = 0; i < 5; ++i) {
      ronde::allreduce(value, {.name = "small", .op = Op::average});
      ASSERT_EQ((float_state() ^ state.word) & kFloatControl, 0u) << state.name;
    }
  }
}

}  // namespace
}  // namespace ronde::test
