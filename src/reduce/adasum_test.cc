#include "reduce/adasum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "reduce/small_float_reference.h"

namespace ronde::reduce {
namespace {

/// Doubles around every rounding decision of a 16-bit float: codes' midpoints and their neighbours.
std::vector<double> around_ties(const reference::Format& format) {
  std::vector<double> values{0.0, -0.0, std::numeric_limits<double>::infinity(), 1e300, -1e300, 1e-300};
  for (std::uint32_t code = 0; code + 1 < format.overflow_code(); ++code) {
    const double tie = (reference::decode(format, code) + reference::decode(format, code + 1)) / 2;
    for (const double value : {tie, std::nextafter(tie, 0.0), std::nextafter(tie, 1e300)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  return values;
}

TEST(Adasum, NarrowsInOneRounding) {
  for (const auto& [dtype, format] :
       {std::pair(DType::float16, reference::kFloat16), std::pair(DType::bfloat16, reference::kBfloat16)}) {
    const std::vector<double> values = around_ties(format);
    std::vector<std::uint16_t> codes(values.size());
    narrow(dtype, values.data(), values.size(), 1.0, codes.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(codes[i], reference::encode(format, values[i])) << dtype_name(dtype) << " " << values[i];
    }
  }
}

TEST(Adasum, WidensAndScales) {
  const std::vector<float> from{1.5f, -2.0f, 0.0f};
  std::vector<double> to(3);
  widen(DType::float32, from.data(), 3, 0.5, to.data());
  EXPECT_EQ(to, (std::vector<double>{0.75, -1, 0}));
  const std::vector<std::uint16_t> half{0x3c00, 0xc000};
  widen(DType::float16, half.data(), 2, 3, to.data());
  EXPECT_EQ(to, (std::vector<double>{3, -6, 0}));
}

std::vector<double> combined(std::vector<double> a, const std::vector<double>& b) {
  Products products;
  add_products(a.data(), b.data(), a.size(), products);
  combine(products, b.data(), a.size(), a.data());
  return a;
}

TEST(Adasum, AveragesWhatIsParallelAndAddsWhatIsOrthogonal) {
  EXPECT_EQ(combined({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}), (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(combined({2, 0, 0}, {0, 3, 0}), (std::vector<double>{2, 3, 0}));
  EXPECT_EQ(combined({0, 0, 0}, {1, 2, 3}), (std::vector<double>{1, 2, 3})) << "0 / 0 is no number";
  EXPECT_EQ(combined({1, 2, 3}, {0, 0, 0}), (std::vector<double>{1, 2, 3}));
  // ab = 11, aa = 5, bb = 25: (1 - 11/10) a + (1 - 11/50) b.
  const std::vector<double> result = combined({1, 2}, {3, 4});
  EXPECT_NEAR(result[0], -0.1 * 1 + 0.78 * 3, 1e-15);
  EXPECT_NEAR(result[1], -0.1 * 2 + 0.78 * 4, 1e-15);
}

TEST(Adasum, PartsAddUp) {
  std::mt19937 random(1);
  std::vector<double> a(1003);
  std::vector<double> b(1003);
  Products expected;
  for (std::size_t i = 0; i < a.size(); ++i) {  // whole numbers: exact in any order
    a[i] = static_cast<double>(random() % 100) - 50;
    b[i] = static_cast<double>(random() % 100) - 50;
    expected.ab += a[i] * b[i];
    expected.aa += a[i] * a[i];
    expected.bb += b[i] * b[i];
  }
  Products products;
  add_products(a.data(), b.data(), 500, products);
  add_products(a.data() + 500, b.data() + 500, 503, products);
  EXPECT_EQ(products.ab, expected.ab);
  EXPECT_EQ(products.aa, expected.aa);
  EXPECT_EQ(products.bb, expected.bb);
}

TEST(Adasum, TakesFloats) {
  EXPECT_TRUE(adasum_supports(DType::bfloat16));
  EXPECT_EQ(adasum_supports(DType::int32).message(),
            "int32 cannot be reduced by adasum, which takes float16, bfloat16, float32 and float64");
  EXPECT_FALSE(adasum_supports(DType::complex64));
}

}  // namespace
}  // namespace ronde::reduce
