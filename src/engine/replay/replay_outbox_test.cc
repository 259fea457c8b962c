#include "engine/replay/replay_outbox.h"

#include <gtest/gtest.h>

namespace ronde::engine {
namespace {

TEST(ReplayOutbox, CallsTheEngineOnceForAllThatIsInIt) {
  ReplayOutbox outbox;
  EXPECT_FALSE(outbox.is_called());
  EXPECT_FALSE(outbox.take_call());
  outbox.send(control::LeaveMessage{});
  outbox.send(control::FreeMessage{7}, 100);
  outbox.fail("a", Status::error(Code::cancelled, "over"));
  EXPECT_TRUE(outbox.is_called());
  EXPECT_TRUE(outbox.take_call());
  EXPECT_FALSE(outbox.take_call());

  const ReplayOutbox::Outcome outcome = outbox.take();
  ASSERT_EQ(outcome.messages.size(), 2u);
  EXPECT_EQ(outcome.messages[0].second, kNever);
  EXPECT_EQ(outcome.messages[1].second, 100);
  EXPECT_EQ(std::get<control::FreeMessage>(outcome.messages[1].first).bucket, 7u);
  ASSERT_EQ(outcome.failed.size(), 1u);
  EXPECT_EQ(outcome.failed[0].first, "a");
  EXPECT_TRUE(outbox.take().messages.empty()) << "taken once";
}

TEST(ReplayOutbox, WhatTheLogSaysStaysInItsOrder) {
  ReplayOutbox outbox;
  outbox.agree(ReplayOutbox::Launch{3});
  outbox.agree(Thresholds{.one_shot = 5});
  outbox.agree(std::vector<control::ExecEntry::Item>(2));
  ASSERT_TRUE(outbox.take_call());
  const ReplayOutbox::Outcome outcome = outbox.take();
  ASSERT_EQ(outcome.agreed.size(), 3u);
  EXPECT_EQ(std::get<ReplayOutbox::Launch>(outcome.agreed[0]).bucket, 3u);
  EXPECT_EQ(std::get<Thresholds>(outcome.agreed[1]).one_shot, 5u);
  EXPECT_EQ(std::get<std::vector<control::ExecEntry::Item>>(outcome.agreed[2]).size(), 2u);
}

TEST(ReplayOutbox, EveryKindCallsTheEngine) {
  const auto calls = [](auto fill) {
    ReplayOutbox outbox;
    fill(outbox);
    return outbox.take_call();
  };
  EXPECT_TRUE(calls([](ReplayOutbox& outbox) { outbox.agree(Thresholds{}); }));
  EXPECT_TRUE(calls([](ReplayOutbox& outbox) { outbox.settle({}); }));
  EXPECT_TRUE(calls([](ReplayOutbox& outbox) { outbox.join({}); }));
  EXPECT_TRUE(calls([](ReplayOutbox& outbox) { outbox.report_bug("bug"); }));
  EXPECT_TRUE(calls([](ReplayOutbox& outbox) { outbox.call(); }));
}

}  // namespace
}  // namespace ronde::engine
