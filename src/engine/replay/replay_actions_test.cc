// What a member wants done, done on a backend that writes it down. Whole worlds: replay_test.cc.
#include "engine/replay/replay_actions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/recording_backend.h"
#include "transport/loopback/testing/host.h"

namespace ronde::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Rank 0 of 2.
class ReplayActionsTest : public testing::Test {
 protected:
  ReplayActionsTest() {
    deaths_ = std::make_unique<Deaths>(*ranks_[0].peers);
    actions_ = std::make_unique<ReplayActions>(member_, state_, backend_, *ranks_[0].peers, *deaths_, pending_, clock_);
  }
  void read(control::Message entry) { member_.step(agreement::LogRead{std::move(entry)}, *actions_); }
  /// Bucket 0, of "a" and "b", is in force.
  void install() {
    read(control::PrepareEntry{bucket_of(2)});
    read(control::InstallEntry{1, {0}});
    take();
    backend_.take();
  }
  TicketPtr submit(const std::string& name, Nanoseconds timeout = kNever) {
    Request request;
    request.name = name;
    request.timeout = timeout;
    const TicketPtr ticket = std::make_shared<Ticket>(std::move(request));
    EXPECT_TRUE(pending_.insert(ticket));
    member_.step(agreement::Submit{name, bucket_of(1).members.front().descriptor}, *actions_);
    return ticket;
  }
  ReplayOutbox::Outcome take() {
    state_.outbox.take_call();
    return state_.outbox.take();
  }
  template <typename M>
  static std::vector<M> messages(const ReplayOutbox::Outcome& outcome) {
    std::vector<M> all;
    for (const auto& [message, deadline] : outcome.messages) {
      if (const M* one = std::get_if<M>(&message)) {
        all.push_back(*one);
      }
    }
    return all;
  }

  const std::vector<transport::LoopbackRank> ranks_ = transport::loopback_host(2);
  std::unique_ptr<Deaths> deaths_;
  RecordingBackend backend_;
  PendingTable pending_;
  FakeClock clock_;
  agreement::Member member_{Group{0, {0, 1}}, 0};
  ReplayState state_;
  std::unique_ptr<ReplayActions> actions_;
};

TEST_F(ReplayActionsTest, WhatHasNoPlaceIsARequestToTheCoordinator) {
  submit("x", kSecond);
  EXPECT_TRUE(state_.has_work());
  const ReplayOutbox::Outcome outcome = take();
  const auto requests = messages<control::RequestMessage>(outcome);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].name, "x");
  EXPECT_EQ(requests[0].timeout, kSecond);
  EXPECT_FALSE(state_.has_work());
  EXPECT_FALSE(state_.outbox.take_call());
}

TEST_F(ReplayActionsTest, APlaceInWithdrawnMemoryIsToldToNobody) {
  Descriptor descriptor = bucket_of(1).members.front().descriptor;
  descriptor.memory_place = 128;
  backend_.withdraws = true;
  member_.step(agreement::Submit{"x", descriptor}, *actions_);
  EXPECT_FALSE(messages<control::RequestMessage>(take()).at(0).descriptor.memory_place.is_known());
}

TEST_F(ReplayActionsTest, ABucketThatTheBackendRefusesIsRefusedAndNotFreed) {
  backend_.refuses = true;
  read(control::PrepareEntry{bucket_of(2)});
  EXPECT_TRUE(messages<control::PreparedMessage>(take()).at(0).refused);
  read(control::RetireEntry{{0}});
  EXPECT_THAT(messages<control::FreeMessage>(take()), IsEmpty());
}

TEST_F(ReplayActionsTest, BucketsArePreparedUnderTheLastRowOfTheLog) {
  read(control::PrepareEntry{bucket_of(2, 0)});
  read(control::TableEntry{{.one_shot = 77}});
  read(control::PrepareEntry{bucket_of(2, 1)});
  ASSERT_EQ(backend_.prepared_under.size(), 2u);
  EXPECT_EQ(backend_.prepared_under[0], backend_.first);
  EXPECT_EQ(backend_.prepared_under[1].one_shot, 77u);
  EXPECT_EQ(take().agreed.size(), 1u) << "plans go by it too";
}

TEST_F(ReplayActionsTest, AnInstanceOfABucket) {
  install();
  EXPECT_TRUE(state_.runs.replays());
  const TicketPtr a = submit("a");
  EXPECT_TRUE(state_.has_work()) << "from now on clocks are watched";
  EXPECT_FALSE(state_.runs.has_published());
  const TicketPtr b = submit("b");
  EXPECT_THAT(backend_.take(), ElementsAre("0: copy_in 0", "0: copy_in 1", "0: publish"));
  ASSERT_TRUE(state_.runs.has_published());
  state_.runs.collect_published();
  EXPECT_THAT(state_.runs.active(), ElementsAre(0));
  EXPECT_FALSE(state_.runs.has_published());
  EXPECT_THAT(state_.watch.buckets(), ElementsAre(0));
  member_.step(agreement::AllPublished{0}, *actions_);
  member_.step(agreement::Reduced{0}, *actions_);
  member_.step(agreement::AllDone{0}, *actions_);
  EXPECT_THAT(state_.completed, ElementsAre(a, b));
  EXPECT_EQ(state_.counters.instances.load(), 1u);
}

TEST_F(ReplayActionsTest, WhenABucketIsPublishedIsNotedForWhoObserves) {
  install();
  clock_.advance(kSecond);
  const auto publish = [&] {
    submit("a");
    submit("b");
    const observe::Instance instance = state_.runs[0].observed().done(1, clock_.now());
    member_.step(agreement::AllPublished{0}, *actions_);
    member_.step(agreement::Reduced{0}, *actions_);
    member_.step(agreement::AllDone{0}, *actions_);
    for (const TicketPtr& ticket : std::exchange(state_.completed, {})) {
      ticket->finish({});
      pending_.free_name(*ticket);
    }
    return instance.published;
  };
  EXPECT_EQ(publish(), 0) << "nobody does";
  actions_->set_observed(true);
  EXPECT_EQ(publish(), clock_.now());
  state_.runs[0].observed().published(1);
  actions_->set_observed(true);
  EXPECT_EQ(state_.runs[0].observed().done(1, 2).published, 0) << "another hears nothing of before";
}

TEST_F(ReplayActionsTest, WhatIsOutstandingAtInstallComesFromThePendingTable) {
  const TicketPtr a = submit("a");
  install();
  EXPECT_EQ(state_.runs[0].tickets()[0], a);
}

TEST_F(ReplayActionsTest, AnEpochBeginsOnceAndBucketsAreAddedToIt) {
  read(control::PrepareEntry{bucket_of(2, 0)});
  read(control::PrepareEntry{bucket_of(1, 1)});
  read(control::InstallEntry{1, {0}});
  EXPECT_THAT(backend_.take(), ElementsAre("begin_epoch", "0: enter 1"));
  read(control::AddEntry{1, {1}});
  EXPECT_THAT(backend_.take(), ElementsAre("1: enter 1"));
  EXPECT_EQ(state_.counters.installs.load(), 2u);
}

TEST_F(ReplayActionsTest, ABreakIsToldToThePeersAndCancelsWhatIsInForce) {
  install();
  submit("a");
  take();
  backend_.take();
  member_.step(agreement::LocalReason{agreement::Reason::deadline, 0}, *actions_);
  EXPECT_EQ(ranks_[1].peers->frozen_in(0), 1u);
  EXPECT_TRUE(state_.runs.replays()) << "until it is decided";
  member_.step(agreement::AllFrozen{}, *actions_);
  EXPECT_THAT(backend_.take(), ElementsAre("0: cancel"));
  EXPECT_FALSE(state_.runs.replays());
  EXPECT_FALSE(state_.runs[0].tickets()[0]);
  const ReplayOutbox::Outcome outcome = take();
  EXPECT_EQ(messages<control::RequestMessage>(outcome).size(), 1u) << "it goes on with the coordinator";
  EXPECT_EQ(messages<control::EndMessage>(outcome).size(), 1u);
}

TEST_F(ReplayActionsTest, ARetiredBucketIsWatchedNoMoreAndFreed) {
  install();
  submit("a");
  member_.step(agreement::LocalReason{agreement::Reason::idle, 0}, *actions_);
  member_.step(agreement::AllFrozen{}, *actions_);
  take();
  read(control::RetireEntry{{0}});
  EXPECT_EQ(messages<control::FreeMessage>(take()).at(0).bucket, 0u);
  EXPECT_FALSE(state_.runs.all()[0]);
  EXPECT_THAT(state_.watch.buckets(), IsEmpty());
}

TEST_F(ReplayActionsTest, ErrorsAndBugsAreLeftForTheEngine) {
  submit("x");
  take();
  read(control::ErrorEntry{"x", Code::timed_out, 1, "too late", {}});
  const ReplayOutbox::Outcome outcome = take();
  ASSERT_EQ(outcome.failed.size(), 1u);
  EXPECT_EQ(outcome.failed[0].first, "x");
  read(control::ExecEntry{{{"never submitted"}}});
  EXPECT_TRUE(take().bug);
}

TEST_F(ReplayActionsTest, JoinSaysTheNumberOfTheLastCall) {
  actions_->set_last_call(9);
  member_.step(agreement::JoinCalled{}, *actions_);
  EXPECT_EQ(messages<control::JoinMessage>(take()).at(0).last_call, 9u);
}

}  // namespace
}  // namespace ronde::engine
