// Plans of the log on a backend that is moved by the test; the executor that runs them with it.
#include "engine/plans/agreed_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/recording_backend.h"
#include "transport/loopback/testing/host.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Launches what it is given, and goes on as `progress` says.
class HandMovedBackend final : public RecordingBackend {
 public:
  Status supports(const Plan& plan) const override {
    return plan.members.front().name == unsupported ? Status::error(Code::not_implemented, "cannot do that") : Status();
  }
  Result<std::unique_ptr<Operation>> launch(const Plan& plan) override {
    if (plan.members.front().name == failing) {
      return Status::error(Code::out_of_memory, "no room");
    }
    launched.push_back(plan.members.front().name);
    return std::unique_ptr<Operation>(std::make_unique<HandMoved>(progress));
  }
  void set_thresholds(const Thresholds& thresholds) override { rows.push_back(thresholds.one_shot); }

  std::string unsupported, failing;
  Progress progress = Progress::done;
  std::vector<std::string> launched;
  std::vector<std::size_t> rows;

 private:
  struct HandMoved final : Operation {
    explicit HandMoved(const Progress& says) : says_(says) {}
    Progress advance() override { return says_; }
    std::vector<int> waiting_for() const override { return {1}; }
    const Progress& says_;
  };
};

/// Rank 0 of 2.
class AgreedPlansTest : public testing::Test {
 protected:
  AgreedPlansTest()
      : peers_(*ranks_[0].peers),
        other_(*ranks_[1].peers),
        deaths_(peers_),
        replay_(group_, backend_, peers_, deaths_, pending_, clock_),
        completion_(clock_, counters_),
        plans_({group_, backend_, peers_, pending_, replay_, completion_, counters_, clock_}) {
    plans_.use_settings({1000, 400, {}});
  }

  TicketPtr held(const std::string& name, std::int64_t elements = 500) {
    Request request;
    request.name = name;
    request.timeout = 10 * kSecond;
    Tensor tensor;
    tensor.shape = {elements};
    request.tensors.push_back({tensor, tensor});
    const TicketPtr ticket = std::make_shared<Ticket>(std::move(request));
    EXPECT_TRUE(pending_.insert(ticket));
    return ticket;
  }
  Status agree_on(const std::vector<std::string>& names) {
    std::vector<control::ExecEntry::Item> items;
    for (const std::string& name : names) {
      items.push_back({name});
      items.back().is_own = true;
    }
    return plans_.add(items);
  }
  void run() {
    while (plans_.advance(clock_.now()) == Progress::again) {
    }
  }

  const Group group_{0, {0, 1}};
  const std::vector<transport::LoopbackRank> ranks_ = transport::loopback_host(2);
  transport::Peers& peers_;
  transport::Peers& other_;
  Deaths deaths_;
  HandMovedBackend backend_;
  PendingTable pending_;
  FakeClock clock_;
  Replay replay_;
  Counters counters_;
  Completion completion_;
  AgreedPlans plans_;
};

TEST_F(AgreedPlansTest, RunOneAfterTheOtherAndEndTheirRequests) {
  const std::vector<TicketPtr> tickets = {held("a"), held("b")};
  ASSERT_TRUE(agree_on({"a", "b"}));
  EXPECT_FALSE(plans_.is_idle());
  run();
  EXPECT_THAT(backend_.launched, ElementsAre("a", "b"));
  EXPECT_TRUE(plans_.is_idle());
  for (const TicketPtr& ticket : tickets) {
    EXPECT_TRUE(ticket->is_done() && ticket->status());
  }
  EXPECT_EQ(counters_.plans, 2u);
}

TEST_F(AgreedPlansTest, SmallTensorsOfAnEntryAreOnePlan) {
  held("a", 10);
  held("b", 10);
  ASSERT_TRUE(agree_on({"a", "b"}));
  run();
  EXPECT_THAT(backend_.launched, ElementsAre("a"));
  EXPECT_EQ(counters_.fused_tensors, 2u);
}

TEST_F(AgreedPlansTest, WhatNobodyHoldsIsABug) {
  const Status status = agree_on({"unknown"});
  EXPECT_EQ(status.code(), Code::internal);
  EXPECT_THAT(status.message(), HasSubstr("'unknown', which nobody here holds"));
  EXPECT_TRUE(plans_.is_idle());
}

TEST_F(AgreedPlansTest, ARowHoldsForWhatIsAddedBehindIt) {
  Thresholds row;
  row.one_shot = 77;
  held("before");
  held("behind");
  ASSERT_TRUE(agree_on({"before"}));
  plans_.use_table(row);
  ASSERT_TRUE(agree_on({"behind"}));
  backend_.progress = Progress::idle;
  run();
  EXPECT_THAT(backend_.rows, IsEmpty());
  backend_.progress = Progress::done;
  run();
  EXPECT_THAT(backend_.rows, ElementsAre(77u));
}

TEST_F(AgreedPlansTest, WhatTheBackendDoesNotSupportEndsAloneAndWhatItCannotBeginEndsAll) {
  backend_.unsupported = "odd";
  backend_.failing = "large";
  const TicketPtr odd = held("odd");
  const TicketPtr large = held("large");
  const TicketPtr last = held("last");
  ASSERT_TRUE(agree_on({"odd", "large", "last"}));
  run();
  EXPECT_EQ(odd->status().code(), Code::not_implemented);
  EXPECT_EQ(plans_.failure().code(), Code::out_of_memory);
  EXPECT_THAT(plans_.failed().owners, ElementsAre(large));
  EXPECT_FALSE(last->is_done());
  EXPECT_THAT(backend_.launched, IsEmpty()) << "nothing behind it";
  plans_.abandon();
  EXPECT_THAT(plans_.take_abandoned(), ElementsAre(large, last));
}

TEST_F(AgreedPlansTest, BytesThatMoveBeginTheLimitAnew) {
  held("a");
  ASSERT_TRUE(agree_on({"a"}));
  EXPECT_EQ(plans_.deadline(), kNever);
  backend_.progress = Progress::again;
  plans_.advance(clock_.now());
  const Nanoseconds first = plans_.deadline();
  clock_.advance(kSecond);
  plans_.advance(clock_.now());
  EXPECT_EQ(plans_.deadline(), first + kSecond);
  backend_.progress = Progress::idle;
  clock_.advance(kSecond);
  plans_.advance(clock_.now());
  EXPECT_EQ(plans_.deadline(), first + kSecond);
  EXPECT_THAT(plans_.waiting_for(), ElementsAre(1));
}

TEST_F(AgreedPlansTest, NoResultIsASuccessOnceAPeerHasGivenUp) {
  const TicketPtr ticket = held("a");
  ASSERT_TRUE(agree_on({"a"}));
  backend_.progress = Progress::again;
  plans_.advance(clock_.now());
  other_.say_given_up();
  backend_.progress = Progress::done;
  EXPECT_EQ(plans_.advance(clock_.now()), Progress::idle);
  EXPECT_TRUE(plans_.peers_gave_up());
  EXPECT_FALSE(ticket->is_done());
  plans_.abandon();
  EXPECT_THAT(plans_.take_abandoned(), ElementsAre(ticket));
}

}  // namespace
}  // namespace ronde::engine
