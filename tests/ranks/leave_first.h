// A rank that exits in order without shutdown while others still need it: what the others see.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ronde/ronde.hpp>
#include <string>
#include <vector>

#include "support/rank_test.h"

namespace ronde::test {

/// The leaver exits in order; the others' next call must say so.
inline void leave_first(int leaver) {
  ronde::init();
  std::vector<float> values(10, 1);
  ronde::allreduce(values, {.name = "together"});
  if (test::rank() == leaver) {
    std::exit(0);
  }
  for (int i = 0; i < 2; ++i) {  // while it is pending, or refused at once
    try {
      ronde::allreduce(values, {.name = "x"});
      FAIL() << "rank " << leaver << " has left";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::peer_left);
      EXPECT_EQ(error.failed_rank(), leaver);
      EXPECT_THAT(error.what(), testing::HasSubstr("rank " + std::to_string(leaver) + " has left"));
    }
  }
  ronde::shutdown();
}

/// Once that rank is gone, a new job cannot be formed, and init says who is missing.
inline void expect_missing(int rank) {
  try {
    ronde::init({.init_timeout_s = 0.3});
    FAIL() << "one rank is missing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timed_out);
    EXPECT_THAT(error.what(), testing::HasSubstr("missing: rank " + std::to_string(rank)));
  }
}

}  // namespace ronde::test
