#include "engine/requests/call_order.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TEST(CallOrderTest, NumbersCountFromTheLastBarrier) {
  CallOrder order;
  EXPECT_EQ(CallOrder::name_of(order.take_number()), "noname.0.1");
  EXPECT_EQ(CallOrder::name_of(order.take_number()), "noname.0.2");
  EXPECT_EQ(CallOrder::name_of(order.restart()), "noname.0.2");
  EXPECT_EQ(CallOrder::name_of(order.take_number()), "noname.1.1");
  order.restart_at(7);
  EXPECT_EQ(CallOrder::name_of(order.last_number()), "noname.7.0");
  EXPECT_EQ(CallOrder::name_of(order.take_number()), "noname.7.1");
}

}  // namespace
}  // namespace ronde::engine
