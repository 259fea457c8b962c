// Sends and recvs of floats, for tests of worlds moved by hand.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "support/local_world.h"

namespace ronde::engine {

inline Request request_of(OpKind kind, const std::string& name, std::vector<float>& values, int peer, int tag = 0) {
  Request request = test::allreduce(name, values);
  request.kind = kind;
  request.root = peer;
  request.tag = tag;
  return request;
}

inline Request send(const std::string& name, std::vector<float>& values, int to, int tag = 0) {
  return request_of(OpKind::send, name, values, to, tag);
}

inline Request recv(const std::string& name, std::vector<float>& values, int from, int tag = 0) {
  return request_of(OpKind::recv, name, values, from, tag);
}

inline std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

inline void expect_ok(const TicketPtr& ticket) {
  ASSERT_TRUE(ticket->is_done()) << ticket->name();
  EXPECT_TRUE(ticket->status()) << ticket->status().message();
}

}  // namespace ronde::engine
