// The coordinator's rows of replay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agreement/coordinator.h"
#include "agreement/testing/layout.h"

namespace ronde::agreement {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CoordinatorPlansTest : public testing::Test {
 protected:
  /// Where nothing is reduced where it lies.
  static constexpr std::int64_t kWorthNothing = 516;

  explicit CoordinatorPlansTest(bool ordered = false)
      : coordinator_(Group{0, {0, 1}}, {4000, 400, {56, 500}, ordered}, &rooms_,
                     [](const MemoryPlaces& places) { return places.back().output != kWorthNothing; }) {
    coordinator_.take_log();
  }

  Status request(int member, const std::string& name, std::uint64_t label, Descriptor descriptor) {
    return coordinator_.on_request(member, {name, std::move(descriptor), label, kNever, 0}, 0);
  }
  static Descriptor tensor(std::int64_t elements, std::int64_t offset = kNoOffset) {
    Descriptor descriptor;
    descriptor.tensors = {{DType::float32, {elements}}};
    descriptor.memory_place = offset;
    return descriptor;
  }
  void round(const std::string& name, std::uint64_t label) {
    for (int member : {0, 1}) {
      ASSERT_TRUE(request(member, name, label, tensor(100)));
    }
  }
  /// One word an entry.
  std::vector<std::string> log() {
    std::vector<std::string> words;
    for (const control::Message& entry : coordinator_.take_log()) {
      if (const auto* exec = std::get_if<control::ExecEntry>(&entry)) {
        last_exec_ = *exec;
        words.push_back("exec " + exec->items.front().name);
      } else if (const auto* error = std::get_if<control::ErrorEntry>(&entry)) {
        last_error_ = *error;
        words.push_back("error " + error->name);
      } else if (const auto* prepare = std::get_if<control::PrepareEntry>(&entry)) {
        last_bucket_ = prepare->bucket;
        words.push_back("prepare " + std::to_string(prepare->bucket.id));
      } else if (const auto* install = std::get_if<control::InstallEntry>(&entry)) {
        words.push_back("install " + std::to_string(install->epoch) + list(install->buckets));
      } else if (const auto* add = std::get_if<control::AddEntry>(&entry)) {
        words.push_back("add " + std::to_string(add->epoch) + list(add->buckets));
      } else if (const auto* retired = std::get_if<control::RetireEntry>(&entry)) {
        words.push_back("retire" + list(retired->buckets));
      } else if (const auto* launch = std::get_if<control::LaunchEntry>(&entry)) {
        words.push_back("launch " + std::to_string(launch->epoch) + list(launch->buckets));
      } else if (const auto* ended = std::get_if<control::BreakEntry>(&entry)) {
        words.push_back("break " + std::to_string(ended->epoch));
      } else if (const auto* done = std::get_if<control::JoinDoneEntry>(&entry)) {
        words.push_back("join_done " + std::to_string(done->last));
      } else if (const auto* table = std::get_if<control::TableEntry>(&entry)) {
        words.push_back("table " + std::to_string(table->thresholds.staged));
      } else {
        words.push_back("other");
      }
    }
    return words;
  }
  static std::string list(const std::vector<std::uint32_t>& ids) {
    std::string text;
    for (std::uint32_t id : ids) {
      text += " " + std::to_string(id);
    }
    return text;
  }
  void prepared(std::uint32_t id, bool refused = false) {
    ASSERT_TRUE(coordinator_.on_prepared(0, {id, false}));
    ASSERT_TRUE(coordinator_.on_prepared(1, {id, refused}));
  }
  /// "x" is in force in epoch 1.
  void install_x() {
    round("x", 0);
    round("x", 0);
    EXPECT_THAT(log(), ElementsAre("exec x", "prepare 0"));
    prepared(0);
    EXPECT_THAT(log(), ElementsAre("install 1 0"));
  }
  void end(std::uint32_t epoch, std::uint64_t instances = 0) {
    for (int member : {0, 1}) {
      ASSERT_TRUE(coordinator_.on_end(member, {epoch, instances, {}}));
    }
  }

  RoomsForTests rooms_;
  Coordinator coordinator_;
  Bucket last_bucket_;
  control::ExecEntry last_exec_;
  control::ErrorEntry last_error_;
};

TEST_F(CoordinatorPlansTest, PreparedByAllThenInstalled) {
  round("x", 0);
  EXPECT_THAT(log(), ElementsAre("exec x"));
  round("x", 0);
  EXPECT_THAT(log(), ElementsAre("exec x", "prepare 0"));
  EXPECT_TRUE(last_bucket_.has_done_words);
  EXPECT_EQ(last_bucket_.layout, "0");
  ASSERT_TRUE(coordinator_.on_prepared(1, {0, false}));
  EXPECT_THAT(log(), IsEmpty());
  ASSERT_TRUE(coordinator_.on_prepared(0, {0, false}));
  EXPECT_THAT(log(), ElementsAre("install 1 0"));
  EXPECT_EQ(coordinator_.epoch(), 1u);
  EXPECT_TRUE(coordinator_.epoch_runs());
}

TEST_F(CoordinatorPlansTest, BucketsThatAreNotUsedAreRetiredAndForgotten) {
  coordinator_.set_many(2);
  install_x();
  EXPECT_FALSE(coordinator_.wants_break()) << "one bucket is not many";
  round("y", 0);
  round("y", 0);
  EXPECT_THAT(log(), ElementsAre("exec y", "prepare 1"));
  prepared(1);
  EXPECT_THAT(log(), ElementsAre("add 1 1"));
  EXPECT_TRUE(coordinator_.wants_break());
  // Once is no proof: it may have come into force just before.
  const auto end_without_y = [&](std::uint32_t epoch) {
    ASSERT_TRUE(coordinator_.on_end(1, {epoch, 9, {}, {}}));
    ASSERT_TRUE(coordinator_.on_end(0, {epoch, 9, {}, {1}}));
  };
  end_without_y(1);
  EXPECT_FALSE(coordinator_.wants_break()) << "no epoch runs";
  EXPECT_THAT(log(), IsEmpty());
  round("x", 1);
  EXPECT_THAT(log(), ElementsAre("exec x", "install 2 0"));
  ASSERT_TRUE(coordinator_.on_end(0, {2, 1000, {}, {}}));
  ASSERT_TRUE(coordinator_.on_end(1, {2, 1000, {}, {}}));
  EXPECT_THAT(log(), ElementsAre("retire 1"));
  // y is a new name again, x is what it was.
  round("y", 2);
  EXPECT_THAT(log(), ElementsAre("exec y"));
  round("x", 3);
  EXPECT_THAT(log(), ElementsAre("exec x", "install 3 0"));
  round("y", 3);
  EXPECT_THAT(log(), ElementsAre("exec y", "prepare 2"));
}

TEST_F(CoordinatorPlansTest, WithoutALayoutEverythingStaysInNegotiation) {
  Coordinator plain(Group{0, {0, 1}}, {4000, 400, {}});
  for (int i = 0; i < 5; ++i) {
    for (int member : {0, 1}) {
      ASSERT_TRUE(plain.on_request(member, {"x", tensor(1), 0, kNever, 0}, 0));
    }
    for (const control::Message& entry : plain.take_log()) {
      EXPECT_FALSE(std::holds_alternative<control::PrepareEntry>(entry));
    }
  }
}

TEST_F(CoordinatorPlansTest, InstallForgetsWhatIsHeldAndDropsWhatCrossesIt) {
  round("x", 0);
  round("x", 0);
  log();
  ASSERT_TRUE(request(0, "x", 0, tensor(100)));
  prepared(0);
  EXPECT_THAT(log(), ElementsAre("install 1 0"));
  EXPECT_FALSE(coordinator_.is_waiting());
  ASSERT_TRUE(request(1, "x", 0, tensor(100)));
  EXPECT_FALSE(coordinator_.is_waiting()) << "its rank reads INSTALL after it had sent this (trap 7)";
  ASSERT_TRUE(request(1, "other", 0, tensor(1)));
  EXPECT_TRUE(coordinator_.is_waiting());
}

TEST_F(CoordinatorPlansTest, WhatBecomesStableInTheEpochIsAdded) {
  install_x();
  round("y", 1);
  round("y", 1);
  EXPECT_THAT(log(), ElementsAre("exec y", "prepare 1"));
  ASSERT_TRUE(request(0, "y", 1, tensor(100)));
  prepared(1);
  EXPECT_THAT(log(), ElementsAre("add 1 1"));
  EXPECT_FALSE(coordinator_.is_waiting());
}

TEST_F(CoordinatorPlansTest, NothingIsAddedOnceARankHasEndedNorInstalledBeforeAllHave) {
  install_x();
  round("y", 1);
  round("y", 1);
  log();
  ASSERT_TRUE(coordinator_.on_end(1, {1, 5, {}}));
  prepared(1);
  EXPECT_THAT(log(), IsEmpty());
  ASSERT_TRUE(coordinator_.on_end(0, {1, 5, {}}));
  EXPECT_FALSE(coordinator_.epoch_runs());
  EXPECT_THAT(log(), ElementsAre("install 2 1")) << "x has to come again first, y was never broken";
}

TEST_F(CoordinatorPlansTest, EndOfAnotherEpochOrTwiceIsABug) {
  EXPECT_EQ(coordinator_.on_end(0, {1, 0, {}}).code(), Code::internal);
  install_x();
  ASSERT_TRUE(coordinator_.on_end(0, {1, 0, {}}));
  EXPECT_EQ(coordinator_.on_end(0, {1, 0, {}}).code(), Code::internal);
}

TEST_F(CoordinatorPlansTest, EveryBreakDoublesTheCleanRoundsUpTo64) {
  install_x();
  std::uint32_t epoch = 1;
  for (int wanted : {1, 2, 4, 8, 16, 32, 64, 64}) {
    end(epoch);
    EXPECT_THAT(log(), IsEmpty());
    int rounds = 0;
    for (std::vector<std::string> entries; rounds <= 64;) {
      round("x", 1000);
      ++rounds;
      entries = log();
      if (entries.size() == 2) {
        EXPECT_EQ(entries[1], "install " + std::to_string(++epoch) + " 0");
        break;
      }
    }
    EXPECT_EQ(rounds, wanted);
  }
  end(epoch, 1000);
  round("x", 1000);
  EXPECT_THAT(log(), testing::SizeIs(2)) << "after a thousand instances the next break is the first again";
}

TEST_F(CoordinatorPlansTest, ABucketThatARankRefusesIsRetiredAndNotPlannedAgain) {
  round("x", 0);
  round("x", 0);
  log();
  prepared(0, true);
  EXPECT_THAT(log(), ElementsAre("retire 0"));
  for (int i = 0; i < 4; ++i) {
    round("x", 0);
    EXPECT_THAT(log(), ElementsAre("exec x"));
  }
  EXPECT_EQ(coordinator_.on_prepared(0, {0, false}).code(), Code::internal);
  EXPECT_EQ(coordinator_.on_free(1, last_bucket_.id).code(), Code::internal) << "a refusal is its FREE";
  EXPECT_TRUE(rooms_.is_taken(0));
  EXPECT_TRUE(coordinator_.on_free(0, last_bucket_.id));
  EXPECT_FALSE(rooms_.is_taken(0));
  EXPECT_EQ(coordinator_.on_free(0, last_bucket_.id).code(), Code::internal) << "free for good";
}

TEST_F(CoordinatorPlansTest, ABucketForWhichThereIsNoRoomIsNotAskedFor) {
  RoomsForTests none(0);
  Coordinator small(Group{0, {0, 1}}, {4000, 400, {56, 500}}, &none);
  small.take_log();
  for (int i = 0; i < 3; ++i) {
    for (int member : {0, 1}) {
      ASSERT_TRUE(small.on_request(member, {"x", tensor(100), 0, kNever, 0}, 0));
    }
    EXPECT_THAT(small.take_log(), testing::SizeIs(1));
  }
}

TEST_F(CoordinatorPlansTest, AMemberThatHasJoinedIsNotWaitedFor) {
  ASSERT_TRUE(request(0, "x", 0, tensor(100)));
  EXPECT_THAT(log(), IsEmpty());
  ASSERT_TRUE(coordinator_.on_join(1));
  EXPECT_THAT(log(), ElementsAre("exec x"));
  EXPECT_EQ(last_exec_.items[0].descriptor, tensor(100)) << "so that the one that has joined can take part";
  EXPECT_EQ(coordinator_.on_join(1).code(), Code::internal);
  ASSERT_TRUE(coordinator_.on_request(0, {"late", tensor(1), 0, kSecond, 0}, 0));
  EXPECT_THAT(log(), ElementsAre("exec late"));
  ASSERT_TRUE(coordinator_.on_join(0));
  EXPECT_THAT(log(), ElementsAre("join_done 0"));
  round("x", 0);
  EXPECT_THAT(log(), testing::Contains("exec x"));
  EXPECT_FALSE(last_exec_.items[0].descriptor);
}

TEST_F(CoordinatorPlansTest, NothingIsInstalledWhileAMemberIsJoined) {
  round("x", 0);
  round("x", 0);
  log();
  ASSERT_TRUE(coordinator_.on_join(1));
  prepared(0);
  EXPECT_THAT(log(), IsEmpty());
  ASSERT_TRUE(coordinator_.on_join(0));
  EXPECT_THAT(log(), ElementsAre("join_done 0", "install 1 0"));
}

TEST_F(CoordinatorPlansTest, AnErrorNamesTheMembersThatHaveJoinedSinceItDoesNotConcernThem) {
  Coordinator three(Group{0, {0, 1, 2}}, {4000, 400, {}}, &rooms_);
  three.take_log();
  ASSERT_TRUE(three.on_join(1));
  ASSERT_TRUE(three.on_request(0, {"x", tensor(1), 0, kSecond, 0}, 0));
  three.on_time(kSecond);
  const auto entries = three.take_log();
  const auto& error = std::get<control::ErrorEntry>(entries.at(0));
  EXPECT_THAT(error.joined, ElementsAre(1));
  EXPECT_THAT(error.text, HasSubstr("rank 2 did not submit it"));
}

TEST_F(CoordinatorPlansTest, AnErrorSaysHowManyAreLate) {
  Coordinator three(Group{0, {0, 1, 2}}, {4000, 400, {}}, &rooms_);
  three.take_log();
  const auto late_text = [&](const std::string& name, const std::vector<int>& members) {
    for (int member : members) {
      EXPECT_TRUE(three.on_request(member, {name, tensor(1), 0, kSecond, 0}, 0));
    }
    three.on_time(kSecond);
    return std::get<control::ErrorEntry>(three.take_log().at(0)).text;
  };
  EXPECT_THAT(late_text("x", {0, 1}), testing::StartsWith("Timed out after 1.0 s in "));
  EXPECT_THAT(late_text("y", {0, 1}), HasSubstr("rank 2 did not submit it. Look at what rank 2 was doing"));
  EXPECT_THAT(late_text("z", {0}), HasSubstr("ranks 1, 2 did not submit it. Look at what ranks 1, 2 were doing"));
}

TEST_F(CoordinatorPlansTest, WhoLeavesEndsPlanning) {
  round("x", 0);
  round("x", 0);
  log();
  coordinator_.on_leave(0, false);
  prepared(0);
  EXPECT_THAT(log(), testing::Not(testing::Contains(HasSubstr("install"))));
}

TEST_F(CoordinatorPlansTest, AnotherTableDividesWhatWasAgreedAndIsPlannedBy) {
  round("x", 0);
  coordinator_.on_table({.staged = 300});
  round("x", 0);
  EXPECT_THAT(log(), ElementsAre("exec x", "table 300", "exec x", "prepare 0"));
  EXPECT_EQ(rooms_.limits().staged_max, 300u);
  coordinator_.on_leave(0, false);
  log();
  coordinator_.on_table({});
  EXPECT_THAT(log(), IsEmpty()) << "nothing can be agreed any more";
}

TEST_F(CoordinatorPlansTest, ExecSaysWhereTheTensorLiesOnEveryRank) {
  ASSERT_TRUE(request(0, "x", 0, tensor(1, 512)));
  ASSERT_TRUE(request(1, "x", 0, tensor(1, 512)));
  log();
  EXPECT_EQ(last_exec_.items[0].places, (MemoryPlaces{512, 512}));
  ASSERT_TRUE(request(0, "x", 0, tensor(1, 512)));
  ASSERT_TRUE(request(1, "x", 0, tensor(1, 640)));
  EXPECT_THAT(log(), ElementsAre("exec x")) << "that is no disagreement";
  EXPECT_EQ(last_exec_.items[0].places, (MemoryPlaces{512, 640}));
  ASSERT_TRUE(request(0, "x", 0, tensor(1, 512)));
  ASSERT_TRUE(request(1, "x", 0, tensor(1, kWorthNothing)));
  log();
  EXPECT_EQ(last_exec_.items[0].places, MemoryPlaces{}) << "the backend does not reduce there";
  ASSERT_TRUE(request(0, "x", 0, tensor(1)));
  ASSERT_TRUE(request(1, "x", 0, tensor(1, 512)));
  log();
  EXPECT_EQ(last_exec_.items[0].places, MemoryPlaces{}) << "private on one rank";
  Descriptor elsewhere = tensor(1, 512);
  elsewhere.memory_place.output = 1024;
  ASSERT_TRUE(request(0, "x", 0, tensor(1, 512)));
  ASSERT_TRUE(request(1, "x", 0, elsewhere));
  log();
  EXPECT_EQ(last_exec_.items[0].places, (MemoryPlaces{512, {512, 1024}}));
}

// ---- An ordered group

class OrderedCoordinatorTest : public CoordinatorPlansTest {
 protected:
  OrderedCoordinatorTest() : CoordinatorPlansTest(true) {}
  void full(int member, std::uint32_t bucket, std::uint64_t instance) {
    const Status status = coordinator_.on_full(member, {1, bucket, instance, 0});
    ASSERT_TRUE(status) << status.message();
  }
};

TEST_F(OrderedCoordinatorTest, OneLogHasLaunchesAndAnswers) {
  install_x();
  round("y", 0);
  round("y", 0);
  EXPECT_THAT(log(), ElementsAre("exec y", "prepare 1"));
  prepared(1);
  EXPECT_THAT(log(), ElementsAre("add 1 1"));
  full(0, 0, 1);
  EXPECT_THAT(log(), IsEmpty());
  round("z", 1);
  full(1, 1, 1);
  full(0, 1, 1);
  full(1, 0, 1);
  round("w", 1);
  EXPECT_THAT(log(), ElementsAre("exec z", "launch 1 1 0", "exec w"));
}

TEST_F(OrderedCoordinatorTest, TheFirstReasonBreaksAndNothingIsLaunchedOrAddedBehindIt) {
  install_x();
  full(0, 0, 1);
  coordinator_.on_frozen({1});
  coordinator_.on_frozen({1});
  full(1, 0, 1);
  EXPECT_THAT(log(), ElementsAre("break 1"));
  round("y", 1);
  round("y", 1);
  EXPECT_THAT(log(), ElementsAre("exec y", "prepare 1"));
  prepared(1);
  EXPECT_THAT(log(), IsEmpty()) << "an epoch that has been broken";
  end(1);
  EXPECT_THAT(log(), ElementsAre("install 2 1"));
}

TEST_F(OrderedCoordinatorTest, WhoLeavesAtOnceBreaks) {
  install_x();
  coordinator_.on_leave(1, true);
  EXPECT_THAT(log(), ElementsAre("break 1", "other"));
}

TEST_F(CoordinatorPlansTest, OtherGroupsKnowNoFullBuckets) {
  install_x();
  EXPECT_EQ(coordinator_.on_full(0, {1, 0, 1, 0}).code(), Code::internal);
  coordinator_.on_frozen({1});
  EXPECT_THAT(log(), IsEmpty());
}

}  // namespace
}  // namespace ronde::agreement
