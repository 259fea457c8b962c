#include "collectives/schedule/kept_inputs.h"

#include <gtest/gtest.h>

#include <array>

namespace ronde::collectives {
namespace {

constexpr std::size_t kKeptPart = std::size_t{32} << 10;

/// Rank 0 of two ranks, which sends the other one part and gets one.
class KeptInputs : public testing::Test {
 protected:
  KeptInputs() {
    exchange_.outgoing = {kKeptPart, kKeptPart};
    exchange_.incoming = {0, kKeptPart};
    exchange_.longest = kKeptPart;
  }
  std::byte* at(std::size_t offset) { return memory_.data() + offset; }
  static GatherList list(const std::byte* from, std::byte* to, std::size_t bytes = kKeptPart) {
    GatherList made;
    made.append(from, to, bytes);
    return made;
  }
  /// Its own part from `own` to `own_to`, one sent from `sent`, one written to `written`.
  bool keeps(std::size_t own, std::size_t own_to, std::size_t sent, std::size_t written) {
    const GatherList own_part = list(at(own), at(own_to));
    return keeps_inputs(exchange_, {own_part, list(at(sent), nullptr), {}, list(at(written), at(written))});
  }

  Exchange exchange_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(8 * kKeptPart);
};

TEST_F(KeptInputs, StayWhereOutputsLieElsewhere) {
  EXPECT_TRUE(keeps(0, 4 * kKeptPart, kKeptPart, 5 * kKeptPart));
  EXPECT_TRUE(keeps(0, 2 * kKeptPart, kKeptPart, 3 * kKeptPart)) << "side by side";
  EXPECT_TRUE(keeps(kKeptPart, kKeptPart, kKeptPart, 3 * kKeptPart)) << "an all-gather in place";
}

TEST_F(KeptInputs, DoNotStayWhereSomethingIsWrittenToThem) {
  EXPECT_FALSE(keeps(0, 4 * kKeptPart, kKeptPart, kKeptPart)) << "what comes";
  EXPECT_FALSE(keeps(0, 4 * kKeptPart, kKeptPart, 2 * kKeptPart - 1)) << "its first byte";
  EXPECT_FALSE(keeps(0, 4 * kKeptPart, 2 * kKeptPart, kKeptPart + 1)) << "its last byte";
  EXPECT_FALSE(keeps(0, kKeptPart, kKeptPart, 3 * kKeptPart)) << "this rank's own part";
  EXPECT_FALSE(keeps(0, 4 * kKeptPart, kKeptPart, 0)) << "what comes, to that before it is carried over";
}

TEST_F(KeptInputs, StayWhereWhatComesIsReducedElsewhere) {
  exchange_.reduces = true;
  EXPECT_TRUE(keeps(0, 4 * kKeptPart, kKeptPart, kKeptPart)) << "nothing is put down there";
  EXPECT_FALSE(keeps(kKeptPart, kKeptPart, kKeptPart, 5 * kKeptPart)) << "the reduction is";
}

TEST_F(KeptInputs, AreOneListOfSeveralSegments) {
  exchange_.one_list = true;
  exchange_.outgoing = {kKeptPart, kKeptPart};
  exchange_.incoming = {0, 0};
  GatherList all;
  all.append(at(0), at(0), kKeptPart / 2);
  all.append(at(kKeptPart), at(3 * kKeptPart), kKeptPart / 2);
  EXPECT_TRUE(keeps_inputs(exchange_, {all}));
  all.append(at(2 * kKeptPart), at(kKeptPart + kKeptPart / 4), 16);
  EXPECT_FALSE(keeps_inputs(exchange_, {all}));
}

TEST_F(KeptInputs, AreNotLookedAtWhereTheyAreSmall) {
  exchange_.longest = 1000;
  EXPECT_FALSE(keeps(0, 4 * kKeptPart, kKeptPart, 5 * kKeptPart));
}

}  // namespace
}  // namespace ronde::collectives
