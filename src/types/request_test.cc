#include "types/request.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace ronde {
namespace {

/// Memory that the tensors of a request lie in.
std::array<float, 64> memory{};

Tensor tensor_at(std::size_t first, std::int64_t elements) {
  return {elements == 0 ? nullptr : memory.data() + first, DType::float32, {elements}, {}};
}

Status validate_group(const std::vector<std::pair<Tensor, Tensor>>& pairs, OpKind kind = OpKind::allreduce) {
  Request request;
  request.kind = kind;
  request.name = "group";
  for (const auto& [input, output] : pairs) {
    request.tensors.push_back({input, output});
  }
  return validate(request, Group{0, {0, 1}}, 0);
}

TEST(Canonicalise, LeavesTagsToPairsAndToCallsWithoutAName) {
  const auto tag_of = [](OpKind kind, bool has_own_number) {
    Request request;
    request.kind = kind;
    request.has_own_number = has_own_number;
    request.tag = 3;
    canonicalise(request);
    return request.tag;
  };
  EXPECT_EQ(tag_of(OpKind::send, false), 3);
  EXPECT_EQ(tag_of(OpKind::allreduce, true), 3);
  EXPECT_EQ(tag_of(OpKind::allreduce, false), 0);
  EXPECT_EQ(tag_of(OpKind::barrier, true), 0) << "its number is that of the calls before it";
}

TEST(Validate, TensorsOfAGroupThatShareNothing) {
  const Tensor a = tensor_at(0, 8);
  const Tensor b = tensor_at(8, 8);
  const Tensor empty = tensor_at(4, 0);
  EXPECT_TRUE(validate_group({{a, a}, {b, b}}));
  EXPECT_TRUE(validate_group({{b, b}, {a, a}})) << "in any order";
  EXPECT_TRUE(validate_group({{a, b}, {a, tensor_at(16, 8)}})) << "an input may be read twice";
  EXPECT_TRUE(validate_group({{a, a}, {empty, empty}, {empty, empty}}));
}

TEST(Validate, TensorsOfAGroupOfWhichOneIsStoredOverAnother) {
  const Tensor a = tensor_at(0, 8);
  const Tensor b = tensor_at(7, 8);
  const Tensor c = tensor_at(32, 8);
  for (const auto& pairs : std::vector<std::vector<std::pair<Tensor, Tensor>>>{
           {{a, a}, {a, a}}, {{a, a}, {b, b}}, {{b, b}, {a, a}}, {{c, a}, {tensor_at(40, 8), b}}, {{a, c}, {c, b}}}) {
    const Status status = validate_group(pairs);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("tensors 0 and 1 of the group overlap"), std::string::npos) << status.message();
  }
  const Status third = validate_group({{a, a}, {c, c}, {tensor_at(39, 2), tensor_at(50, 2)}});
  EXPECT_NE(third.message().find("tensors 1 and 2"), std::string::npos) << third.message();
  EXPECT_TRUE(validate_group({{a, {}}, {b, {}}}, OpKind::allgather)) << "nothing is stored there";
}

}  // namespace
}  // namespace ronde
