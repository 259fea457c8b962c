#include "engine/requests/unwaited_calls.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/requests/call_order.h"
#include "observe/observer.h"
#include "support/local_world.h"

namespace ronde::engine {
namespace {

/// Which places of buckets are replayed.
class Places final : public observe::Observer {
 public:
  void requested(std::int32_t, std::string_view, const Descriptor&, Nanoseconds) override {}
  void ready(std::int32_t, std::string_view, const Descriptor&, int, Nanoseconds) override {}
  void batch(std::int32_t, Nanoseconds) override {}
  void agreed(const Request&, Nanoseconds) override {}
  void started(const Request&, const Plan&, Nanoseconds) override {}
  void stopped(const Request&, Nanoseconds) override {}
  void finished(const Request&, const Status&, Nanoseconds) override {}
  void replayed(std::int32_t, const Bucket& bucket, const observe::Instance&) override {
    for (const BucketMember& member : bucket.members) {
      seen.insert(member.name);
    }
  }
  std::set<std::string> seen;
};

class Lists : public testing::Test {
 protected:
  static constexpr std::size_t kCalls = 3;
  enum class Told { at_the_end, after_each };
  enum class Made { one_by_one, at_once };

  Lists() : world_(2) { world_.engine(0).observe(&places_); }
  ~Lists() override { world_.engine(0).observe(nullptr); }

  /// A list of calls; one by one: each has ended before the next is made.
  void make_list(Told told, Made made = Made::one_by_one) {
    std::vector<std::pair<int, TicketPtr>> tickets;
    std::vector<std::vector<float>> values(kCalls * 2, std::vector<float>(4, 1));
    for (std::size_t call = 0; call < kCalls; ++call) {
      for (int rank = 0; rank < 2; ++rank) {
        Request request = test::allreduce("", values[call * 2 + static_cast<std::size_t>(rank)]);
        request.call_number = world_.engine(rank).take_call_number();
        request.name = CallOrder::name_of(request.call_number);
        request.has_own_number = true;
        tickets.emplace_back(rank, world_.submit(rank, request));
      }
      if (made == Made::at_once) {
        continue;
      }
      world_.settle();
      for (int rank = 0; rank < 2; ++rank) {
        Ticket& ticket = *tickets[call * 2 + static_cast<std::size_t>(rank)].second;
        ASSERT_TRUE(ticket.is_done());
        if (told == Told::after_each) {
          world_.wait(rank, ticket);
        }
      }
    }
    world_.settle();
    for (const auto& [rank, ticket] : tickets) {
      if (told == Told::at_the_end) {
        world_.wait(rank, *ticket);
      }
    }
    for (const std::vector<float>& each : values) {
      EXPECT_EQ(each, std::vector<float>(4, 2));
    }
  }

  test::LocalWorld world_;
  Places places_;
};

TEST_F(Lists, HaveAPlaceForEachCallHoweverFastTheCallsEnd) {
  for (int list = 0; list < 60; ++list) {
    make_list(Told::at_the_end);
  }
  places_.seen.clear();
  make_list(Told::at_the_end);
  EXPECT_EQ(places_.seen.size(), kCalls);
}

TEST_F(Lists, CallsThatAreWaitedForShareAPlace) {
  for (int list = 0; list < 60; ++list) {
    make_list(Told::after_each);
  }
  places_.seen.clear();
  make_list(Told::after_each);
  EXPECT_EQ(places_.seen.size(), 1);
}

class ListsAfterSingleCalls : public Lists, public testing::WithParamInterface<int> {};

TEST_P(ListsAfterSingleCalls, ArePlannedAnew) {
  for (int list = 0; list < GetParam(); ++list) {
    make_list(Told::after_each);
  }
  for (int list = 0; list < 200; ++list) {
    make_list(Told::at_the_end, Made::at_once);
  }
  places_.seen.clear();
  make_list(Told::at_the_end, Made::at_once);
  EXPECT_EQ(places_.seen.size(), kCalls);
}

INSTANTIATE_TEST_SUITE_P(HoweverMany, ListsAfterSingleCalls, testing::Values(60, 3000));

class UnwaitedCallsTest : public testing::Test {
 protected:
  TicketPtr next() {
    auto ticket = std::make_shared<Ticket>(Request{});
    ticket->plan_as("p");
    calls_.add(ticket);
    return ticket;
  }
  UnwaitedCalls calls_;
};

TEST_F(UnwaitedCallsTest, ACallIsAskedAtWithTheFirstOfItsList) {
  const TicketPtr first = next();
  EXPECT_EQ(first->asked_at(5), 5);
  const TicketPtr second = next();
  EXPECT_EQ(second->asked_at(7), 5);
  const TicketPtr third = next();
  EXPECT_EQ(third->asked_at(9), 5);
  third->tell();
  const TicketPtr fourth = next();
  EXPECT_EQ(fourth->asked_at(11), 11);
  next();  // dropped
  EXPECT_EQ(next()->asked_at(13), 13);
}

// The program waits for the first calls of its list, and lets them go, before the engine has come to the last.
TEST_F(UnwaitedCallsTest, AListStaysOneWhenItsFirstCallsAreGone) {
  TicketPtr first = next();
  TicketPtr second = next();
  const TicketPtr third = next();
  EXPECT_EQ(first->asked_at(5), 5);
  EXPECT_EQ(second->asked_at(5), 5);
  first->tell();
  second->tell();
  first = second = nullptr;
  EXPECT_EQ(third->asked_at(9), 5);
}

}  // namespace
}  // namespace ronde::engine
