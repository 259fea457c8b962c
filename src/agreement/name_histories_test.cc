#include "agreement/name_histories.h"

#include <gtest/gtest.h>

#include <utility>

namespace ronde::agreement {
namespace {

Descriptor of_elements(std::int64_t elements) {
  Descriptor descriptor;
  descriptor.tensors = {{DType::float32, {elements}}};
  return descriptor;
}

// ---- One name

TEST(NameHistory, ANameWithoutAnswersHasNotComeOften) {
  const NameHistory history;
  EXPECT_EQ(history.answers_needed(), 2u);
  EXPECT_FALSE(history.has_come_often());
}

TEST(NameHistory, EqualAnswersInARowAreCounted) {
  NameHistory history;
  EXPECT_FALSE(history.on_exec(of_elements(1), {}, {0, 1})) << "the first is like none";
  EXPECT_FALSE(history.has_come_often());
  EXPECT_TRUE(history.on_exec(of_elements(1), {}, {1, 2}));
  EXPECT_TRUE(history.has_come_often());
  EXPECT_EQ(history.changes, 0u);
  EXPECT_EQ(history.answers, 2u);
}

TEST(NameHistory, TheLastRoundIsTheFirst) {
  NameHistory history;
  history.on_exec(of_elements(1), {}, {3, 5});
  history.on_exec(of_elements(1), {}, {7, 9});
  EXPECT_EQ(history.rounds[0].asked, 7u);
  EXPECT_EQ(history.rounds[0].answered, 9u);
  EXPECT_EQ(history.rounds[1].asked, 3u);
  EXPECT_EQ(history.rounds[1].answered, 5u);
}

TEST(NameHistory, AnotherDescriptorOrPlaceIsAChange) {
  NameHistory history;
  history.on_exec(of_elements(1), {}, {});
  EXPECT_FALSE(history.on_exec(of_elements(2), {}, {}));
  EXPECT_EQ(history.same, 1u);
  EXPECT_EQ(history.changes, 1u);
  EXPECT_EQ(history.before_mark, 1u);
  EXPECT_FALSE(history.on_exec(of_elements(2), {MemoryPlace(64)}, {}));
  EXPECT_EQ(history.changes, 2u);
  EXPECT_EQ(history.before_mark, 2u);
  EXPECT_EQ(history.places, MemoryPlaces{MemoryPlace(64)});
}

TEST(NameHistory, EachChangeBeyondAFewDoublesWhatIsNeeded) {
  for (const auto& [changes, needed] : {std::pair{0u, 2u},
                                        {1u, 2u},
                                        {2u, 2u},
                                        {3u, 16u},
                                        {4u, 32u},
                                        {10u, 2048u},
                                        {11u, 4096u},
                                        {12u, 4096u},
                                        {UINT32_MAX, 4096u}}) {
    NameHistory history;
    history.changes = changes;
    EXPECT_EQ(history.answers_needed(), needed) << changes;
    EXPECT_EQ(history.has_changed_often(), changes > 2) << changes;
    history.same = needed - 1;
    EXPECT_FALSE(history.has_come_often()) << changes;
    history.same = needed;
    EXPECT_TRUE(history.has_come_often()) << changes;
  }
}

TEST(NameHistory, ServiceForLongMakesUpForChanges) {
  NameHistory history;
  history.changes = 9;
  history.on_served_long();
  EXPECT_EQ(history.answers_needed(), 2u);
}

TEST(NameHistory, AnErrorIsAnAnswerThatIsLikeNoneAndNotClean) {
  NameHistory history;
  history.on_exec(of_elements(1), {}, {0, 1});
  history.on_error();
  EXPECT_EQ(history.answers, 2u);
  EXPECT_EQ(history.same, 0u);
  EXPECT_EQ(history.since_break, 0u);
  EXPECT_GE(history.rounds[0].asked, history.rounds[0].answered) << "together with nothing";
  EXPECT_TRUE(history.on_exec(of_elements(1), {}, {1, 3})) << "no change";
  EXPECT_EQ(history.same, 1u);
}

TEST(NameHistory, CleanAnswersAreCountedFromTheLastBreak) {
  NameHistory history;
  history.on_exec(of_elements(1), {}, {});
  history.on_exec(of_elements(2), {}, {});
  EXPECT_EQ(history.since_break, 2u);
  history.on_break();
  EXPECT_EQ(history.since_break, 0u);
  EXPECT_EQ(history.same, 1u);
}

TEST(NameHistory, CallsThatDifferTooOftenAreNeverPlanned) {
  NameHistory history;
  for (std::uint32_t i = 1; i < NameHistory::kMostOtherCalls; ++i) {
    history.on_other_calls();
    EXPECT_FALSE(history.never) << i;
  }
  history.on_other_calls();
  EXPECT_TRUE(history.never);
  EXPECT_EQ(history.answers, NameHistory::kMostOtherCalls);
  history.same = 5000;
  EXPECT_FALSE(history.has_come_often());
}

// ---- All names

TEST(NameHistories, AnswersHaveAnOrder) {
  NameHistories names;
  EXPECT_EQ(names.order(), 0u);
  EXPECT_EQ(names.find("a"), nullptr);
  NameHistory& a = names.answered("a");
  NameHistory& b = names.answered("b");
  EXPECT_EQ(a.order, 1u);
  EXPECT_EQ(b.order, 2u);
  EXPECT_EQ(&names.answered("a"), &a);
  EXPECT_EQ(a.order, 3u);
  EXPECT_EQ(names.order(), 3u);
  EXPECT_EQ(names.size(), 2u);
  EXPECT_EQ(*a.name, "a");
  EXPECT_EQ(names.find("b"), &b);
}

TEST(NameHistories, ABreakIsOneForEveryName) {
  NameHistories names;
  names.on_break();
  names.answered("a").since_break = 3;
  names.answered("b").since_break = 1;
  names.on_break();
  EXPECT_EQ(names.find("a")->since_break, 0u);
  EXPECT_EQ(names.find("b")->since_break, 0u);
}

TEST(NameHistories, AForgottenNameIsNew) {
  NameHistories names;
  names.answered("a").on_exec(of_elements(1), {}, {});
  names.answered("b");
  names.forget(*names.find("a"));
  EXPECT_EQ(names.size(), 1u);
  EXPECT_FALSE(names.answered("a").known);
}

TEST(NameHistories, OfVeryManyNamesThoseThatCameOnceAndToWhichNobodyRefersGo) {
  NameHistories names;
  const auto add = [&](const std::string& name, int answers) -> NameHistory& {
    NameHistory& history = names.answered(name);
    for (int i = 0; i < answers; ++i) {
      history.on_exec(of_elements(1), {}, {});
    }
    return history;
  };
  add("twice", 2);
  add("planned", 1).bucket = 0;
  add("candidate", 1).is_candidate = true;
  add("persistent", 1).is_persistent = true;
  while (names.size() < NameHistories::kNamesKept) {
    add("once." + std::to_string(names.size()), 1);
  }
  ASSERT_NE(names.find("once.4"), nullptr) << "so many are kept";
  add("one more", 1);
  EXPECT_EQ(names.size(), 5u);
  for (const char* name : {"twice", "planned", "candidate", "persistent", "one more"}) {
    EXPECT_NE(names.find(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace ronde::agreement
