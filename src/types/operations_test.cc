#include "types/operations.h"

#include <gtest/gtest.h>

#include <set>

namespace ronde {
namespace {

TEST(Operations, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const OperationTraits& operation : kOperations) {
    EXPECT_TRUE(operation.is_known);
    EXPECT_TRUE(names.insert(operation.name).second) << operation.name;
  }
  EXPECT_EQ(op_name(OpKind::allreduce), "allreduce");
  EXPECT_EQ(op_name(OpKind::exscan), "exscan");
}

TEST(Operations, ANumberThatNamesNoneIsUnknown) {
  for (const int number : {-1, 14, 1000}) {
    EXPECT_FALSE(traits(static_cast<OpKind>(number)).is_known);
    EXPECT_EQ(op_name(static_cast<OpKind>(number)), "unknown");
  }
}

TEST(Operations, WhatARowSaysGoesTogether) {
  for (const OperationTraits& operation : kOperations) {
    SCOPED_TRACE(operation.name);
    EXPECT_TRUE(operation.reduces || (!operation.has_average && !operation.has_adasum));
    EXPECT_TRUE(operation.has_tensors || (!operation.reduces && operation.rows == Rows::as_input));
    EXPECT_TRUE(operation.joined != Joined::neutral || operation.reduces) << "only reductions have neutral values";
    EXPECT_TRUE(operation.joined != Joined::neutral || operation.root == Root::none);
    EXPECT_TRUE(!operation.takes_splits || operation.rows == Rows::of_pairs);
  }
}

}  // namespace
}  // namespace ronde
