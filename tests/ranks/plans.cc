// Persistent plans between processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <ronde/ronde.hpp>
#include <string>

#include "support/rank_test.h"

namespace ronde::test {
namespace {

/// The ranks meet by the names: each has them in an order of its own.
TEST(Plans, AreTheSameInAnyOrderOfTheirNames) {
  const Session session;
  constexpr std::size_t kRequests = 5;
  constexpr int64_t kElements = 3;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kRequests; ++i) {
    names.push_back("part " + std::to_string(i));
  }
  std::rotate(names.begin(), names.begin() + test::rank() % static_cast<int>(kRequests), names.end());
  std::vector<std::vector<float>> values(kRequests, std::vector<float>(kElements));
  std::vector<ronde_tensor> tensors(kRequests);
  std::vector<ronde_request> requests(kRequests);
  for (std::size_t i = 0; i < kRequests; ++i) {
    tensors[i].struct_size = sizeof(ronde_tensor);
    tensors[i].data = values[i].data();
    tensors[i].shape = &kElements;
    tensors[i].ndim = 1;
    tensors[i].dtype = RONDE_FLOAT32;
    requests[i].struct_size = sizeof(ronde_request);
    requests[i].op = RONDE_ALLREDUCE;
    requests[i].reduce_op = RONDE_SUM;
    requests[i].name = names[i].data();
    requests[i].name_bytes = names[i].size();
    requests[i].inputs = &tensors[i];
    requests[i].count = 1;
  }
  ronde_plan* plan = nullptr;
  ASSERT_EQ(ronde_plan_create(nullptr, requests.data(), requests.size(), &plan), RONDE_OK) << ronde_last_error();
  for (int start = 0; start < 20; ++start) {
    for (std::size_t i = 0; i < kRequests; ++i) {
      std::fill(values[i].begin(), values[i].end(), static_cast<float>(names[i].back() - '0' + start));
    }
    ASSERT_EQ(ronde_plan_start(plan), RONDE_OK) << ronde_last_error();
    ASSERT_EQ(ronde_plan_wait(plan, 30), RONDE_OK) << ronde_last_error();
    for (std::size_t i = 0; i < kRequests; ++i) {
      const auto expected = static_cast<float>((names[i].back() - '0' + start) * size());
      ASSERT_EQ(values[i], std::vector<float>(kElements, expected)) << names[i] << ", start " << start;
    }
  }
  ASSERT_EQ(ronde_plan_destroy(plan), RONDE_OK) << ronde_last_error();
}

}  // namespace
}  // namespace ronde::test
