// Every level against the scalar one, bit for bit, and the scalar one against a reference written straight from the
// contract in reduce.h: no kernel code, other conversions, integers in 128 bits.
#include "reduce/reduce.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "reduce/small_float_reference.h"
#include "support/effort.h"

namespace ronde::reduce {
namespace {

__extension__ using Int128 = __int128;

using Bytes = std::vector<std::byte>;

constexpr std::array kTypes{DType::uint8,   DType::int8,     DType::uint16,      DType::int16,      DType::int32,
                            DType::int64,   DType::uint32,   DType::uint64,      DType::float16,    DType::float32,
                            DType::float64, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2};
constexpr std::array kOps{ReduceOp::average, ReduceOp::sum,     ReduceOp::min,    ReduceOp::max,
                          ReduceOp::product, ReduceOp::bit_and, ReduceOp::bit_or, ReduceOp::bit_xor};
constexpr std::size_t kMaxRanks = 8;
constexpr std::size_t kMaxSize = 1027;

/// One pair of scales, and the numbers of ranks and elements to try with it. Scaled kernels have fewer instances.
struct Sweep {
  double prescale;
  double postscale;
  std::vector<std::size_t> ranks;
  std::vector<std::size_t> counts;
};
const std::vector<Sweep>& sweeps() {
  static const std::vector<std::size_t> few{1, 17, 65, 1027};
  static const std::vector<Sweep> all{
      {1, 1, {1, 2, 3, 4, 5, 8}, {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 1000, 1027}},
      {0.37, 1, {1, 2, 3, 4, 5, 8}, few},
      {1, 2.5, {1, 2, 5}, few},
      {-1.7, 0.3, {1, 2, 5}, few}};
  return all;
}

/// The code of element i, without its meaning.
std::uint64_t code_at(DType dtype, const void* base, std::size_t i) {
  std::uint64_t code = 0;
  std::memcpy(&code, static_cast<const std::byte*>(base) + i * dtype_bytes(dtype), dtype_bytes(dtype));
  return code;
}

// ---- The reference -------------------------------------------------------------------------------------------------

std::optional<reference::Format> small_format(DType dtype) {
  switch (dtype) {
    case DType::float16: return reference::kFloat16;
    case DType::bfloat16: return reference::kBfloat16;
    case DType::float8_e4m3: return reference::kFloat8E4M3;
    case DType::float8_e5m2: return reference::kFloat8E5M2;
    default: return std::nullopt;
  }
}

double float_value(DType dtype, std::uint64_t code) {
  if (const auto format = small_format(dtype)) {
    return reference::decode(*format, static_cast<std::uint32_t>(code));
  }
  return dtype == DType::float32 ? std::bit_cast<float>(static_cast<std::uint32_t>(code)) : std::bit_cast<double>(code);
}

bool is_unsigned(DType dtype) {
  return dtype == DType::uint8 || dtype == DType::uint16 || dtype == DType::uint32 || dtype == DType::uint64;
}

Int128 integer_value(DType dtype, std::uint64_t code) {
  switch (dtype) {
    case DType::int8: return static_cast<std::int8_t>(code);
    case DType::int16: return static_cast<std::int16_t>(code);
    case DType::int32: return static_cast<std::int32_t>(code);
    case DType::int64: return static_cast<std::int64_t>(code);
    default: return code;
  }
}

bool is_nan_code(DType dtype, std::uint64_t code) { return is_floating(dtype) && std::isnan(float_value(dtype, code)); }

/// T is the accumulator: float or double.
template <typename T>
double reduce_floats(const Reduction& what, const std::vector<double>& values) {
  const auto ranks = static_cast<T>(values.size());
  T result = 0;
  for (std::size_t r = 0; r < values.size(); ++r) {
    T value = static_cast<T>(values[r]);
    if (what.prescale != 1) {
      value = value * static_cast<T>(what.prescale);
    }
    if (r == 0) {
      result = value;
    } else if (what.op == ReduceOp::product) {
      result = result * value;
    } else if (what.op == ReduceOp::sum || what.op == ReduceOp::average) {
      result = result + value;
    } else if (std::isnan(result) || std::isnan(value)) {
      result = std::numeric_limits<T>::quiet_NaN();
    } else if (what.op == ReduceOp::min) {
      result = value < result ? value : result;
    } else {
      result = value > result ? value : result;
    }
  }
  if (what.op == ReduceOp::average) {
    result = result / ranks;
  }
  return what.postscale == 1 ? result : result * static_cast<T>(what.postscale);
}

/// The low bits of `value` that the type has, as the value they stand for.
Int128 wrap(DType dtype, Int128 value) {
  const auto bits = static_cast<std::uint64_t>(value);
  const std::size_t width = 8 * dtype_bytes(dtype);
  return integer_value(dtype, width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1));
}

Int128 scale_integer(DType dtype, Int128 value, double scale) {
  if (scale == 1) {
    return value;
  }
  const auto width = static_cast<int>(8 * dtype_bytes(dtype));
  const Int128 max = (Int128{1} << (is_unsigned(dtype) ? width : width - 1)) - 1;
  const Int128 min = is_unsigned(dtype) ? 0 : -max - 1;
  // Every product here fits 128 bits.
  const auto whole = static_cast<Int128>(std::trunc(static_cast<double>(value) * scale));
  return whole > max ? max : whole < min ? min : whole;
}

Int128 reduce_integers(const Reduction& what, std::vector<Int128> values) {
  for (Int128& value : values) {
    value = scale_integer(what.dtype, value, what.prescale);
  }
  Int128 result = values[0];
  if (what.op == ReduceOp::average) {
    Int128 sum = 0;
    for (const Int128 value : values) {
      sum += value;
    }
    const Int128 in_64_bits = wrap(what.dtype == DType::uint64 ? DType::uint64 : DType::int64, sum);
    result = wrap(what.dtype, in_64_bits / static_cast<Int128>(values.size()));
  } else {
    for (std::size_t r = 1; r < values.size(); ++r) {
      const Int128 value = values[r];
      switch (what.op) {
        case ReduceOp::sum: result = wrap(what.dtype, result + value); break;
        case ReduceOp::product: result = wrap(what.dtype, result * value); break;
        case ReduceOp::min: result = std::min(result, value); break;
        case ReduceOp::max: result = std::max(result, value); break;
        case ReduceOp::bit_and: result = result & value; break;
        case ReduceOp::bit_or: result = result | value; break;
        default: result = result ^ value; break;
      }
    }
  }
  return scale_integer(what.dtype, result, what.postscale);
}

/// The code that the contract asks for; of a NaN any code will do.
std::uint64_t expected_code(const Reduction& what, const std::vector<std::uint64_t>& codes) {
  if (is_integer(what.dtype)) {
    std::vector<Int128> values;
    values.reserve(codes.size());
    for (std::uint64_t code : codes) {
      values.push_back(integer_value(what.dtype, code));
    }
    std::uint64_t code = 0;
    const auto result = static_cast<std::uint64_t>(reduce_integers(what, values));
    std::memcpy(&code, &result, dtype_bytes(what.dtype));
    return code;
  }
  std::vector<double> values;
  values.reserve(codes.size());
  for (std::uint64_t code : codes) {
    values.push_back(float_value(what.dtype, code));
  }
  if (what.dtype == DType::float64) {
    return std::bit_cast<std::uint64_t>(reduce_floats<double>(what, values));
  }
  const auto result = static_cast<float>(reduce_floats<float>(what, values));
  const auto format = small_format(what.dtype);
  if (!format) {
    return std::bit_cast<std::uint32_t>(result);
  }
  return std::isnan(result) ? format->sign_bit() - 1 : reference::encode(*format, result);
}

// ---- Inputs --------------------------------------------------------------------------------------------------------

/// Mostly numbers of ordinary size, where rounding decides; some of any bits, which are huge, subnormal, infinite, NaN.
std::uint64_t random_code(DType dtype, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  if (is_integer(dtype) || bits % 16 == 0) {
    return random();
  }
  const double value = std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), -63 + int(bits % 5));
  if (const auto format = small_format(dtype)) {
    return reference::encode(*format, value);
  }
  return dtype == DType::float32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                 : std::bit_cast<std::uint64_t>(value);
}

std::vector<Bytes> random_inputs(DType dtype) {
  std::mt19937_64 random(static_cast<unsigned>(dtype));
  std::vector<Bytes> inputs(kMaxRanks, Bytes(kMaxSize * dtype_bytes(dtype)));
  for (Bytes& input : inputs) {
    for (std::size_t i = 0; i < kMaxSize; ++i) {
      const std::uint64_t code = random_code(dtype, random);
      std::memcpy(input.data() + i * dtype_bytes(dtype), &code, dtype_bytes(dtype));
    }
  }
  return inputs;
}

// ---- Running one case ----------------------------------------------------------------------------------------------

/// Where the memory of a call lies.
enum class Placement { separate, shifted_twice_stored, in_place };

/// `bytes` bytes at `shift` bytes past the start of a block that ends with them, so that ASan sees a step too far.
class Block {
 public:
  Block(std::size_t bytes, std::size_t shift) : bytes_(bytes), shift_(shift), memory_(new std::byte[bytes + shift]) {}
  std::byte* data() { return memory_.get() + shift_; }
  void fill(const void* from) { copy(data(), from); }
  Bytes take() { return Bytes(data(), data() + bytes_); }

 private:
  void copy(void* to, const void* from) {
    if (bytes_ != 0) {
      std::memcpy(to, from, bytes_);
    }
  }
  std::size_t bytes_;
  std::size_t shift_;
  std::unique_ptr<std::byte[]> memory_;
};

Bytes run(std::string_view level, const Reduction& what, const std::vector<Bytes>& inputs, std::size_t ranks,
          std::size_t count, Placement placement) {
  const std::size_t element = dtype_bytes(what.dtype);
  const std::size_t bytes = count * element;
  const bool is_shifted = placement == Placement::shifted_twice_stored;
  std::vector<Block> blocks;
  std::vector<const void*> pointers;
  for (std::size_t r = 0; r < ranks; ++r) {
    // Each pointer at another distance from a register's natural boundary.
    blocks.emplace_back(bytes, is_shifted ? (r + 1) * element : 0).fill(inputs[r].data());
    pointers.push_back(blocks.back().data());
  }
  if (placement == Placement::in_place) {
    Block& output = blocks[count % ranks];
    reduce_at(level, what, pointers, count, output.data());
    return output.take();
  }
  Block output(bytes, is_shifted ? 3 * element : 0);
  Block second(bytes, is_shifted ? 5 * element : 0);
  reduce_at(level, what, pointers, count, output.data(), is_shifted ? second.data() : nullptr);
  if (is_shifted) {
    EXPECT_EQ(output.take(), second.take());
  }
  return output.take();
}

/// Sums and products of two NaNs give either of them, which depends on how the compiler orders the operands of an
/// addition; all else must agree to the bit.
void expect_same_bits(const Reduction& what, const Bytes& actual, const Bytes& expected) {
  if (actual == expected) {
    return;
  }
  const bool any_nan_will_do = what.op == ReduceOp::sum || what.op == ReduceOp::average || what.op == ReduceOp::product;
  for (std::size_t i = 0; i < expected.size() / dtype_bytes(what.dtype); ++i) {
    const std::uint64_t a = code_at(what.dtype, actual.data(), i);
    const std::uint64_t e = code_at(what.dtype, expected.data(), i);
    if (any_nan_will_do && is_nan_code(what.dtype, a) && is_nan_code(what.dtype, e)) {
      continue;
    }
    ASSERT_EQ(a, e) << "element " << i << std::hex << " codes " << a << " and " << e;
  }
}

void expect_reference(const Reduction& what, const std::vector<Bytes>& inputs, std::size_t ranks, std::size_t count,
                      const Bytes& actual) {
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::uint64_t> codes;
    for (std::size_t r = 0; r < ranks; ++r) {
      codes.push_back(code_at(what.dtype, inputs[r].data(), i));
    }
    const std::uint64_t code = code_at(what.dtype, actual.data(), i);
    const std::uint64_t expected = expected_code(what, codes);
    if (!(is_nan_code(what.dtype, code) && is_nan_code(what.dtype, expected))) {
      ASSERT_EQ(code, expected) << "element " << i << std::hex << " codes " << code << " and " << expected;
    }
  }
}

void expect_contract(const Reduction& what, const Sweep& sweep, const std::vector<Bytes>& inputs) {
  for (std::size_t ranks : sweep.ranks) {
    for (std::size_t count : sweep.counts) {
      SCOPED_TRACE(testing::Message() << reduce_op_name(what.op) << ", " << ranks << " ranks, " << count
                                      << " elements, scales " << what.prescale << " and " << what.postscale);
      const Bytes expected = run("scalar", what, inputs, ranks, count, Placement::separate);
      if (kFullEffort) {  // a sanitizer looks at accesses, not at values
        expect_reference(what, inputs, ranks, count, expected);
      }
      for (std::string_view level : levels()) {
        SCOPED_TRACE(level);
        for (Placement placement : {Placement::separate, Placement::shifted_twice_stored, Placement::in_place}) {
          expect_same_bits(what, run(level, what, inputs, ranks, count, placement), expected);
        }
      }
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }
}

class ReduceType : public testing::TestWithParam<DType> {};

std::string type_name(const testing::TestParamInfo<DType>& info) { return std::string(dtype_name(info.param)); }

TEST_P(ReduceType, EveryLevelGivesTheBitsOfTheContract) {
  const DType dtype = GetParam();
  const std::vector<Bytes> inputs = random_inputs(dtype);
  for (ReduceOp op : kOps) {
    for (const Sweep& sweep : sweeps()) {
      const Reduction what{.dtype = dtype, .op = op, .prescale = sweep.prescale, .postscale = sweep.postscale};
      if (supports(what)) {
        expect_contract(what, sweep, inputs);
      }
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReduceType, testing::ValuesIn(kTypes), type_name);

// ---- Single rules --------------------------------------------------------------------------------------------------

template <typename T>
std::vector<T> reduce_values(std::string_view level, const Reduction& what, const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> pointers;
  pointers.reserve(inputs.size());
  for (const std::vector<T>& input : inputs) {
    pointers.push_back(input.data());
  }
  std::vector<T> output(inputs[0].size());
  reduce_at(level, what, pointers, output.size(), output.data());
  return output;
}

TEST(Reduce, SumsInRankOrder) {
  const std::vector<std::vector<float>> inputs{std::vector(37, 1e8f), std::vector(37, -1e8f), std::vector(37, 1.0f)};
  const std::vector<std::vector<float>> other_order{inputs[0], inputs[2], inputs[1]};
  for (std::string_view level : levels()) {
    EXPECT_EQ(reduce_values(level, {.op = ReduceOp::sum}, inputs), std::vector(37, 1.0f)) << level;
    EXPECT_EQ(reduce_values(level, {.op = ReduceOp::sum}, other_order), std::vector(37, 0.0f)) << level;
  }
}

TEST(Reduce, NoFusedMultiplyAdd) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 rounds to 1 + 2^-11; minus that, fused arithmetic would leave 2^-24.
  const float x = 1 + 0x1p-12f;
  const std::vector<std::vector<float>> inputs{std::vector(37, -(1 + 0x1p-11f) / x), std::vector(37, x)};
  const float first = inputs[0][0] * x;
  const float second = x * x;
  ASSERT_NE(std::fma(x, x, first), first + second);
  for (std::string_view level : levels()) {
    const Reduction what{.op = ReduceOp::sum, .prescale = x};
    EXPECT_EQ(reduce_values(level, what, inputs), std::vector(37, first + second)) << level;
  }
}

TEST(Reduce, HalfRoundsOnce) {
  // In fp16, 2048 + 1 is 2048 again: adding three ones one by one would change nothing. Their true sum 2051 is a tie.
  using Codes = std::vector<std::uint16_t>;
  const std::vector<Codes> inputs{Codes(37, 0x6800), Codes(37, 0x3c00), Codes(37, 0x3c00), Codes(37, 0x3c00)};
  const Reduction what{.dtype = DType::float16, .op = ReduceOp::sum};
  for (std::string_view level : levels()) {
    EXPECT_EQ(reduce_values(level, what, inputs), Codes(37, 0x6802)) << level;
  }
}

TEST(Reduce, MinAndMaxPropagateNanFromEitherSide) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> inputs{{1, kNan, 3, kNan, 5}, {kNan, 2, 1, kNan, 6}, {0, 0, 2, 1, -1}};
  for (std::string_view level : levels()) {
    const std::vector<float> min = reduce_values(level, {.op = ReduceOp::min}, inputs);
    const std::vector<float> max = reduce_values(level, {.op = ReduceOp::max}, inputs);
    for (std::size_t i : {0u, 1u, 3u}) {
      EXPECT_TRUE(std::isnan(min[i])) << level << " " << i;
      EXPECT_TRUE(std::isnan(max[i])) << level << " " << i;
    }
    EXPECT_EQ(min[2], 1);
    EXPECT_EQ(max[2], 3);
    EXPECT_EQ(min[4], -1);
    EXPECT_EQ(max[4], 6);
  }
}

TEST(Reduce, BoolIsATruthValue) {
  // All eight triples, often enough for every level's vectors.
  std::vector<std::vector<std::uint8_t>> inputs(3, std::vector<std::uint8_t>(8 * 37));
  std::vector<std::uint8_t> any(8 * 37);
  std::vector<std::uint8_t> all(8 * 37);
  std::vector<std::uint8_t> odd(8 * 37);
  for (std::size_t i = 0; i < any.size(); ++i) {
    const unsigned bits = i % 8;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      inputs[rank][i] = (bits >> rank) & 1;
    }
    any[i] = bits != 0;
    all[i] = bits == 7;
    odd[i] = std::popcount(bits) % 2;
  }
  for (std::string_view level : levels()) {
    const auto by = [&](ReduceOp op) { return reduce_values(level, {.dtype = DType::boolean, .op = op}, inputs); };
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bit_or}) {
      EXPECT_EQ(by(op), any) << level << " " << reduce_op_name(op);
    }
    for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::bit_and}) {
      EXPECT_EQ(by(op), all) << level << " " << reduce_op_name(op);
    }
    EXPECT_EQ(by(ReduceOp::bit_xor), odd) << level;
  }
  // Of memory that was no truth values: 2, 3 and 4 for 1.
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (std::uint8_t& each : inputs[rank]) {
      each = static_cast<std::uint8_t>(each * (rank + 2));
    }
  }
  for (std::string_view level : levels()) {
    EXPECT_EQ(reduce_values(level, {.dtype = DType::boolean, .op = ReduceOp::bit_xor}, inputs), odd) << level;
    for (const auto& [op, expected] : {std::pair(ReduceOp::sum, any), std::pair(ReduceOp::product, all)}) {
      std::vector<std::uint8_t> truths = reduce_values(level, {.dtype = DType::boolean, .op = op}, inputs);
      std::ranges::transform(truths, truths.begin(), [](std::uint8_t each) -> std::uint8_t { return each != 0; });
      EXPECT_EQ(truths, expected) << level;
    }
  }
}

template <typename T>
void expect_complex(DType dtype) {
  using C = std::complex<T>;
  for (const std::size_t ranks : {1u, 2u, 3u, 5u}) {
    std::vector<std::vector<C>> inputs(ranks, std::vector<C>(77));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < 77; ++i) {  // small Gaussian integers: everything is exact
        inputs[rank][i] = C(static_cast<T>((i * 3 + rank) % 7) - 3, static_cast<T>((i + rank * 5) % 5) - 2);
      }
    }
    std::vector<C> sum(77);
    std::vector<C> product(77, C(4));
    for (std::size_t i = 0; i < 77; ++i) {
      for (const std::vector<C>& input : inputs) {
        sum[i] += input[i] * C(2);
        product[i] *= input[i] * C(2);
      }
    }
    for (std::string_view level : levels()) {
      EXPECT_EQ(reduce_values(level, {.dtype = dtype, .op = ReduceOp::sum, .prescale = 2}, inputs), sum) << level;
      const Reduction scaled{.dtype = dtype, .op = ReduceOp::product, .prescale = 2, .postscale = 4};
      EXPECT_EQ(reduce_values(level, scaled, inputs), product) << level << " " << ranks;
      const std::vector<C> average = reduce_values(level, {.dtype = dtype, .op = ReduceOp::average}, inputs);
      for (std::size_t i = 0; i < 77; ++i) {
        EXPECT_EQ(average[i], sum[i] / T{2} / static_cast<T>(ranks)) << level;
      }
    }
  }
}

TEST(Reduce, ComplexNumbers) {
  expect_complex<float>(DType::complex64);
  expect_complex<double>(DType::complex128);
}

TEST(Reduce, HalfWithAPrescaleRoundsOnceOnThreeRanks) {
  // In fp16 1/3 of each would be rounded before the sum; the accumulator is fp32, and the store rounds once.
  using Codes = std::vector<std::uint16_t>;
  std::mt19937_64 random(3);
  std::vector<Codes> inputs(3, Codes(999));
  Codes expected(999);
  std::size_t differs_if_rounded_twice = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    float sum = 0;
    double rounded_twice = 0;
    for (Codes& input : inputs) {
      input[i] = static_cast<std::uint16_t>(random_code(DType::float16, random) & 0xbfff);  // finite
      const double value = reference::decode(reference::kFloat16, input[i]);
      sum += static_cast<float>(value) * static_cast<float>(1.0 / 3);
      rounded_twice += reference::decode(reference::kFloat16, reference::encode(reference::kFloat16, value / 3));
    }
    expected[i] = static_cast<std::uint16_t>(reference::encode(reference::kFloat16, sum));
    differs_if_rounded_twice += reference::encode(reference::kFloat16, rounded_twice) != expected[i];
  }
  ASSERT_GT(differs_if_rounded_twice, 100u);
  for (std::string_view level : levels()) {
    EXPECT_EQ(reduce_values(level, {.dtype = DType::float16, .op = ReduceOp::sum, .prescale = 1.0 / 3}, inputs),
              expected)
        << level;
  }
}

TEST(Reduce, EveryPairOfFloat8) {
  for (const DType dtype : {DType::float8_e4m3, DType::float8_e5m2}) {
    const reference::Format format = *small_format(dtype);
    std::vector<std::vector<std::uint8_t>> inputs(2, std::vector<std::uint8_t>(65536));
    for (std::size_t i = 0; i < 65536; ++i) {
      inputs[0][i] = static_cast<std::uint8_t>(i);
      inputs[1][i] = static_cast<std::uint8_t>(i >> 8);
    }
    const std::vector<std::uint8_t> sums = reduce_values(level(), {.dtype = dtype, .op = ReduceOp::sum}, inputs);
    for (std::size_t i = 0; i < 65536; ++i) {
      const double sum = reference::decode(format, inputs[0][i]) + reference::decode(format, inputs[1][i]);
      if (std::isnan(sum)) {
        ASSERT_TRUE(reference::is_nan(format, sums[i])) << i;
      } else {
        ASSERT_EQ(sums[i], reference::encode(format, sum)) << i;
      }
    }
  }
}

TEST(Reduce, SupportsWhatItSays) {
  for (DType dtype : kTypes) {
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      EXPECT_TRUE(supports({.dtype = dtype, .op = op})) << dtype_name(dtype) << " " << reduce_op_name(op);
      EXPECT_TRUE(supports({.dtype = dtype, .op = op, .prescale = 2}));
    }
    EXPECT_EQ(supports({.dtype = dtype, .op = ReduceOp::bit_or}).is_ok(), is_integer(dtype)) << dtype_name(dtype);
    EXPECT_FALSE(supports({.dtype = dtype, .op = ReduceOp::adasum}));
  }
  const Status status = supports({.dtype = DType::complex64, .op = ReduceOp::min});
  EXPECT_EQ(status.code(), Code::not_implemented);
  EXPECT_EQ(status.message(), "complex64 cannot be reduced by min: it has no order");
  EXPECT_EQ(supports({.op = ReduceOp::bit_and}).message(),
            "float32 cannot be reduced by bit_and: it has no bits to combine");
  EXPECT_EQ(supports({.dtype = DType::boolean, .op = ReduceOp::average}).message(),
            "bool can be neither averaged nor scaled; convert it to a number");
  EXPECT_FALSE(supports({.dtype = DType::boolean, .op = ReduceOp::max, .postscale = 2}));
  EXPECT_FALSE(supports({.dtype = static_cast<DType>(-1)}));
  EXPECT_FALSE(supports({.op = static_cast<ReduceOp>(99)}));
}

TEST(Reduce, UsesTheCurrentLevel) {
  const std::vector<float> a{1, 2, 3};
  const std::vector<float> b{10, 20, 30};
  const void* inputs[] = {a.data(), b.data()};
  std::vector<float> output(3);
  reduce({.op = ReduceOp::average}, inputs, 3, output.data());
  EXPECT_EQ(output, (std::vector<float>{5.5, 11, 16.5}));
}

}  // namespace
}  // namespace ronde::reduce
