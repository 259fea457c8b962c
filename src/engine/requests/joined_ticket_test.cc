#include "engine/requests/joined_ticket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace ronde::engine {
namespace {

template <typename T>
std::vector<T> values_of(const Tensor& tensor) {
  const auto* const data = static_cast<const T*>(tensor.data);
  return {data, data + tensor.elements()};
}

TEST(JoinedTicket, IsLikeTheOthersRequestWithValuesThatChangeNothing) {
  Descriptor descriptor;
  descriptor.reduce_op = ReduceOp::max;
  descriptor.prescale = 0.5;
  descriptor.postscale = 3;
  descriptor.tensors = {{DType::float32, {2, 2}}, {DType::float32, {}}, {DType::float32, {0}}};
  const TicketPtr ticket = make_joined_ticket("loss", descriptor, 7);
  EXPECT_TRUE(ticket->is_of_joined_rank());
  const Request& request = ticket->request();
  EXPECT_EQ(request.name, "loss");
  EXPECT_EQ(request.group, 7);
  EXPECT_EQ(describe(request), descriptor);
  const float lowest = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(values_of<float>(request.tensors.at(0).input), std::vector<float>(4, lowest));
  EXPECT_EQ(values_of<float>(request.tensors.at(1).input), std::vector<float>(1, lowest));
  for (const RequestTensor& pair : request.tensors) {
    EXPECT_EQ(pair.input.data, pair.output.data) << "what comes out is dropped with the memory";
  }
}

TEST(JoinedTicket, OfIntegersTheSmallestAndLargestOfTheType) {
  Descriptor descriptor;
  descriptor.tensors = {{DType::uint64, {3}}};
  descriptor.reduce_op = ReduceOp::min;
  const TicketPtr least = make_joined_ticket("least", descriptor, 0);
  EXPECT_EQ(values_of<std::uint64_t>(least->request().tensors.at(0).input),
            std::vector<std::uint64_t>(3, std::numeric_limits<std::uint64_t>::max()));
  descriptor.reduce_op = ReduceOp::sum;
  const TicketPtr sum_of = make_joined_ticket("sum", descriptor, 0);
  EXPECT_EQ(values_of<std::uint64_t>(sum_of->request().tensors.at(0).input), std::vector<std::uint64_t>(3));
}

}  // namespace
}  // namespace ronde::engine
