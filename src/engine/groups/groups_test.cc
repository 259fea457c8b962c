// Groups of ranks: as threads over one loopback host, on the real clock. Between processes: tests/ranks/groups.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing/runners.h"
#include "store/memory_store.h"

namespace ronde::engine {
namespace {

using testing::HasSubstr;

/// Adds up the members' ranks + 1 in the group; 0 on an error, which fails the test.
float sum_in(Job& job, int rank, std::int32_t group, const std::string& name, std::size_t elements = 5) {
  std::vector<float> values(elements, static_cast<float>(rank + 1));
  const TicketPtr ticket = sum(name, values, {}, group);
  const Status submitted = job[rank].submit_to_wait(ticket);
  EXPECT_TRUE(submitted) << submitted.message();
  if (!submitted) {
    return 0;
  }
  EXPECT_TRUE(job[rank].wait(*ticket, kNever));
  EXPECT_TRUE(ticket->status()) << ticket->status().message();
  EXPECT_EQ(values.front(), values.back());
  return values.front();
}

bool has(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

float expected_sum(const std::vector<int>& ranks) {
  float total = 0;
  for (int rank : ranks) {
    total += static_cast<float>(rank + 1);
  }
  return total;
}

TEST(Groups, EachAddsUpItsOwn) {
  Job job(5);
  const std::vector<std::vector<int>> sets = {{0, 2}, {4, 1, 3}, {3}, {0, 1, 2, 3, 4}};
  job.run([&](int rank) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const Result<std::int32_t> id = job[rank].process_sets().make(sets[i]);
      ASSERT_TRUE(id) << id.status().message();
      EXPECT_EQ(id.value(), static_cast<int>(i) + 1);
    }
    for (int step = 0; step < 50; ++step) {  // from negotiation into replay
      for (std::size_t i = 0; i < sets.size(); ++i) {
        if (has(sets[i], rank)) {
          EXPECT_EQ(sum_in(job, rank, static_cast<int>(i) + 1, "x", step % 7 == 0 ? 30000 : 5), expected_sum(sets[i]));
        }
      }
      EXPECT_EQ(sum_in(job, rank, 0, "x"), 15.0f) << "all have a queue and names of their own";
    }
  });
}

TEST(Groups, WorkInAnyOrder) {
  // Each rank begins with another group, so that a job with one queue for all would come to a stand.
  Job job(3);
  const std::vector<std::vector<int>> sets = {{0, 1}, {1, 2}, {0, 2}};
  job.run([&](int rank) {
    for (const auto& set : sets) {
      ASSERT_TRUE(job[rank].process_sets().make(set));
    }
    for (int step = 0; step < 30; ++step) {
      std::vector<std::vector<float>> values(3, std::vector<float>(1000, static_cast<float>(rank + 1)));
      std::vector<TicketPtr> tickets(3);
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t which = (i + static_cast<std::size_t>(rank)) % 3;
        if (has(sets[which], rank)) {
          tickets[which] = sum("x", values[which], {}, static_cast<int>(which) + 1);
          ASSERT_TRUE(job[rank].submit(tickets[which]));
        }
      }
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t which = (2 * i + static_cast<std::size_t>(rank)) % 3;
        if (tickets[which]) {
          ASSERT_TRUE(job[rank].wait(*tickets[which], kNever));
          ASSERT_TRUE(tickets[which]->status()) << tickets[which]->status().message();
          EXPECT_EQ(values[which].front(), expected_sum(sets[which]));
        }
      }
    }
  });
}

TEST(Groups, ABroadcastsRootIsARankOfTheJob) {
  Job job(3);
  job.run([&](int rank) {
    const std::int32_t id = job[rank].process_sets().make({1, 2}).value();
    if (rank == 0) {
      return;
    }
    std::vector<float> values(4, static_cast<float>(rank));
    for (int root : {1, 2, 0}) {
      Request request = sum("cast", values, {}, id)->request();
      request.kind = OpKind::broadcast;
      request.root = root;
      const auto ticket = std::make_shared<Ticket>(std::move(request));
      const Status submitted = job[rank].submit_to_wait(ticket);
      if (root == 0) {
        EXPECT_EQ(submitted.code(), Code::invalid_argument);
        continue;
      }
      ASSERT_TRUE(submitted) << submitted.message();
      ASSERT_TRUE(job[rank].wait(*ticket, kNever));
      values.assign(4, values.front() + 10);
    }
    EXPECT_EQ(values.front(), 21) << "1 of rank 1, twice handed on with 10 more";
  });
}

TEST(Groups, WhoIsNoMemberIsToldSo) {
  Job job(2);
  job.run([&](int rank) {
    const std::int32_t id = job[rank].process_sets().make({1}).value();
    std::vector<float> values(1);
    if (rank == 0) {
      const Status refused = job[0].submit(sum("x", values, {}, id));
      EXPECT_EQ(refused.code(), Code::invalid_argument);
      EXPECT_THAT(refused.message(), HasSubstr("rank 0 belongs to no process set with the id 1"));
    }
    EXPECT_EQ(job[rank].submit(sum("y", values, {}, 7)).code(), Code::invalid_argument);
  });
}

TEST(Groups, WhatRanksDisagreeOnIsToldAllAlike) {
  Job job(3);
  job.run([&](int rank) {
    Runner& runner = job[rank];
    ProcessSets& sets = runner.process_sets();
    const Status other = sets.make({0, rank == 2 ? 2 : 1}).status();
    EXPECT_EQ(other.code(), Code::mismatch);
    EXPECT_THAT(other.message(), HasSubstr("rank 0 for [0, 1], rank 2 for [0, 2]"));
    const Status bad = sets.make(rank == 1 ? std::vector<int>{0, 3} : std::vector<int>{0, 1}).status();
    EXPECT_EQ(bad.code(), Code::invalid_argument);
    EXPECT_THAT(bad.message(), HasSubstr("rank 1: a process set has the rank 3; the ranks of this job are 0 to 2"));
    EXPECT_THAT(sets.make({1, 1}).status().message(), HasSubstr("rank 1 twice"));
    EXPECT_EQ(sets.make({}).status().code(), Code::invalid_argument);
    EXPECT_EQ(sets.make({2, 0}).value(), 1) << "nothing has happened";
    EXPECT_EQ(sets.make({0, 1}).value(), 2);
    EXPECT_THAT(runner.end_group(rank == 0 ? 1 : 2).message(), HasSubstr("the ranks remove different process sets"));
    EXPECT_THAT(runner.end_group(9).message(), HasSubstr("no process set with the id 9"));
    EXPECT_EQ(runner.end_group(0).code(), Code::invalid_argument);
    EXPECT_TRUE(runner.end_group(1));
    EXPECT_THAT(runner.end_group(1).message(), HasSubstr("no process set with the id 1"));
  });
}

TEST(Groups, EndedOnesGiveTheirPlaceBack) {
  Job job(2);
  job.run([&](int rank) {
    for (int i = 1; i <= 30; ++i) {  // more than there is room for at once
      const Result<std::int32_t> id = job[rank].process_sets().make({0, 1});
      ASSERT_TRUE(id) << id.status().message();
      EXPECT_EQ(id.value(), i);
      for (int step = 0; step < 5; ++step) {
        EXPECT_EQ(sum_in(job, rank, i, "x"), 3.0f);
      }
      ASSERT_TRUE(job[rank].end_group(i));
      std::vector<float> values(1);
      EXPECT_EQ(job[rank].submit(sum("x", values, {}, i)).code(), Code::invalid_argument);
    }
  });
}

TEST(Groups, MoreThanThereIsRoomForAreRefusedEverywhere) {
  Job job(2);
  job.run([&](int rank) {
    int made = 0;
    Status last;
    while (last.is_ok() && made < 100) {
      last = job[rank].process_sets().make({0, 1}).status();
      made += last.is_ok() ? 1 : 0;
    }
    EXPECT_EQ(last.code(), Code::out_of_memory);
    EXPECT_THAT(last.message(), HasSubstr("this rank belongs to " + std::to_string(made) + " of"));
    EXPECT_EQ(sum_in(job, rank, made, "x"), 3.0f);
    ASSERT_TRUE(job[rank].end_group(1));
    EXPECT_TRUE(job[rank].process_sets().make({0}));
  });
}

TEST(Groups, WhatIsUnderWayInAnEndedOneFails) {
  Job job(2);
  job.run([&](int rank) {
    const std::int32_t id = job[rank].process_sets().make({0, 1}).value();
    std::vector<float> values(3);
    const TicketPtr lone = sum("lone", values, {}, id);
    if (rank == 0) {
      ASSERT_TRUE(job[0].submit(lone));
    }
    ASSERT_TRUE(job[rank].end_group(id));
    if (rank == 0) {
      ASSERT_TRUE(job[0].wait(*lone, kNever));
      EXPECT_FALSE(lone->status());
      EXPECT_THAT(lone->status().message(), HasSubstr("'lone'"));
    }
    EXPECT_EQ(sum_in(job, rank, 0, "after"), 3.0f);
  });
}

TEST(Groups, ShutdownEndsThem) {
  Job job(3);
  job.run([&](int rank) {
    const std::int32_t id = job[rank].process_sets().make({0, 2}).value();
    std::vector<float> values(3);
    const TicketPtr lone = sum("lone", values, {}, id);
    if (rank == 2) {
      ASSERT_TRUE(job[2].submit(lone));
    }
    EXPECT_EQ(sum_in(job, rank, 0, "all have come so far"), 6.0f);  // else who leaves first refuses it
    EXPECT_TRUE(job[rank].shutdown());
    EXPECT_EQ(lone->is_done(), rank == 2);
  });
  job.is_over();
}

TEST(Groups, ADeathInOneLeavesTheOthersWorking) {
  Job job(4);
  const std::vector<std::int32_t> ids = {1, 2};
  job.run([&](int rank) {
    EXPECT_EQ(job[rank].process_sets().make({0, 1}).value(), ids[0]);
    EXPECT_EQ(job[rank].process_sets().make({2, 3}).value(), ids[1]);
  });
  // Told of rank 3's death: its group and the job's are over, the other one works.
  job.run([&](int rank) {
    if (rank == 3) {
      return;
    }
    const std::shared_ptr<Engine> engine = job[rank].engines().find(rank < 2 ? ids[0] : ids[1]).engine;
    ASSERT_NE(engine, nullptr);
    if (rank == 2) {
      engine->notice_end(1);
      std::vector<float> values(3);
      const TicketPtr ticket = sum("x", values, {}, ids[1]);
      if (job[2].submit(ticket)) {
        ASSERT_TRUE(job[2].wait(*ticket, kNever));
        EXPECT_EQ(ticket->status().code(), Code::peer_lost);
        EXPECT_EQ(ticket->status().failed_rank(), 3) << "a rank of the job, not of the group";
        EXPECT_THAT(ticket->status().message(), HasSubstr("rank 3"));
      }
    } else {
      EXPECT_EQ(sum_in(job, rank, ids[0], "x"), 3.0f);
    }
  });
}

/// Made by its members alone, who meet under the name.
Result<std::int32_t> make_with(Job& job, int rank, const std::vector<int>& ranks, store::Store& store,
                               const std::string& name) {
  Meeting meeting{&store, name, static_cast<int>(ranks.size()), later(RealClock().now(), 20 * kSecond)};
  return job[rank].member_groups().make(ranks, meeting, job[rank].engine().settings().timeout);
}

TEST(Groups, MembersMakeThemAlone) {
  Job job(3);
  store::MemoryStore store;
  job.run([&](int rank) {
    // Rank 1 makes one alone, so that the ranks count differently from then on, and the order of ranks is the caller's.
    if (rank == 1) {
      const std::int32_t own = job[1].member_groups().make({1}, {}, kNever).value();
      EXPECT_EQ(sum_in(job, 1, own, "x"), 2.0f);
    }
    if (rank != 0) {
      const Result<std::int32_t> pair = make_with(job, rank, {2, 1}, store, "pair");
      ASSERT_TRUE(pair) << pair.status().message();
      EXPECT_EQ(pair.value(), rank == 1 ? kFirstOwnGroup + 1 : kFirstOwnGroup);
      EXPECT_EQ(job[rank].engines().find(pair.value()).engine->topology().rank, rank == 2 ? 0 : 1);
      for (int step = 0; step < 30; ++step) {
        EXPECT_EQ(sum_in(job, rank, pair.value(), "x", step % 7 == 0 ? 30000 : 5), 5.0f);
      }
      // Messages too find each other under different ids.
      std::vector<float> message(3, static_cast<float>(rank));
      Request request = sum("message", message, {}, pair.value())->request();
      request.kind = rank == 1 ? OpKind::send : OpKind::recv;
      request.root = 3 - rank;
      request.timeout = 20 * kSecond;
      const auto ticket = std::make_shared<Ticket>(std::move(request));
      ASSERT_TRUE(job[rank].submit_to_wait(ticket));
      ASSERT_TRUE(job[rank].wait(*ticket, kNever));
      EXPECT_TRUE(ticket->status()) << ticket->status().message();
      EXPECT_EQ(message, std::vector<float>(3, 1));
      const auto memory = job[rank].engine().memory().allocate(8 * (static_cast<std::size_t>(rank) + 1));
      ASSERT_TRUE(memory);
      EXPECT_TRUE(job[rank].end_group(pair.value()));
      EXPECT_EQ(job[rank].end_group(pair.value()).code(), Code::invalid_argument);
    }
    // Process sets go on counting alike.
    EXPECT_EQ(job[rank].process_sets().make({0, 2}).value(), 1);
    EXPECT_EQ(job[rank].member_groups().make({0, 1, 1}, {}, kNever).status().code(), Code::invalid_argument);
    EXPECT_EQ(job[rank].member_groups().make({(rank + 1) % 3}, {}, kNever).status().code(), Code::invalid_argument);
  });
}

TEST(Groups, AMemberThatDoesNotComeIsNamedAndNothingHasHappened) {
  Job job(2);
  store::MemoryStore store;
  Meeting meeting{&store, "both", 2, later(RealClock().now(), 50 * kMillisecond)};
  const Status status = job[0].member_groups().make({0, 1}, meeting, kNever).status();
  EXPECT_EQ(status.code(), Code::timed_out);
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  job.run([&](int rank) { EXPECT_EQ(sum_in(job, rank, 0, "x"), 3.0f); });
}

TEST(Groups, WhoComesTooLateDisturbsNobody) {
  Job job(2);
  store::MemoryStore store;
  const auto meet_for = [&](int rank, Nanoseconds limit) {
    const Meeting meeting{&store, "both", 2, later(RealClock().now(), limit)};
    return job[rank].member_groups().make({0, 1}, meeting, kNever).status();
  };
  ASSERT_EQ(meet_for(0, 50 * kMillisecond).code(), Code::timed_out);
  EXPECT_EQ(job[0].groups_taken(), 1u) << "rank 1 may have heard of rank 0's part, which nobody else may use then";
  EXPECT_EQ(meet_for(1, 50 * kMillisecond).code(), Code::timed_out);
  const std::int32_t own = job[0].member_groups().make({0}, {}, kNever).value();
  EXPECT_EQ(sum_in(job, 0, own, "x"), 1.0f);
  job.run([&](int rank) {
    const std::int32_t both = job[rank].process_sets().make({0, 1}).value();
    EXPECT_EQ(sum_in(job, rank, both, "x"), 3.0f);
  });
}

TEST(Groups, WhatTheyLeaveIsUsedAgain) {
  Job job(2);
  store::MemoryStore store;
  job.run([&](int rank) {
    for (int round = 0; round < 40; ++round) {  // there is room for 4 at a time
      const Result<std::int32_t> id = make_with(job, rank, {0, 1}, store, "round " + std::to_string(round));
      ASSERT_TRUE(id) << id.status().message();
      EXPECT_EQ(sum_in(job, rank, id.value(), "x"), 3.0f);
      EXPECT_TRUE(job[rank].end_group(id.value()));
      EXPECT_LE(job[rank].groups_taken(), 2u) << "the other one may not have gone yet";
    }
  });
}

TEST(Groups, ThoseAtRestAreNotLookedAtUntilTheyAreCalled) {
  Job job(2);
  std::vector<std::int32_t> ids(4);
  job.run([&](int rank) {
    for (std::int32_t& id : ids) {
      const std::int32_t made = job[rank].process_sets().make({0, 1}).value();
      EXPECT_EQ(sum_in(job, rank, made, "x"), 3.0f);
      if (rank == 0) {
        id = made;
      }
    }
    // Work of the job makes steps, after some of which nobody looks at the groups any more, on either rank.
    std::vector<float> awake(1, 1);
    for (int step = 0; step < 100000 && awake[0] > 0; ++step) {
      awake[0] = static_cast<float>(job[rank].engines().awake());
      const TicketPtr ticket = sum("awake", awake);
      ASSERT_TRUE(job[rank].submit_to_wait(ticket));
      ASSERT_TRUE(job[rank].wait(*ticket, kNever));
    }
    EXPECT_EQ(job[rank].engines().awake(), 0u);
  });
  job.run([&](int rank) {
    // One rank is called by its own submit, the other, whose engine thread sleeps, by its peer.
    for (const std::int32_t id : ids) {
      std::vector<float> values(5, static_cast<float>(rank + 1));
      const TicketPtr ticket = sum("y", values, {}, id);
      ASSERT_TRUE(job[rank].submit(ticket));
      while (!ticket->is_done()) {
        std::this_thread::yield();  // nobody waits, so the engine threads do it all
      }
      EXPECT_EQ(values[0], 3.0f);
      ASSERT_TRUE(job[rank].release(*ticket));
    }
  });
}

}  // namespace
}  // namespace ronde::engine
