// The C interface itself, in a job of one rank: what ronde.hpp does not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "ronde/ronde.h"
#include "support/fork_at_rest.h"

namespace {

class OneRank : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(ronde_init(nullptr), RONDE_OK) << ronde_last_error(); }
  void TearDown() override { EXPECT_EQ(ronde_shutdown(), RONDE_OK) << ronde_last_error(); }
};

/// One tensor of four floats and an all-reduce of it.
struct Work {
  float values[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4};
  ronde_tensor tensor{};
  ronde_request request{};

  explicit Work(const char* name) {
    tensor.struct_size = sizeof tensor;
    tensor.data = values;
    tensor.shape = shape;
    tensor.ndim = 1;
    tensor.dtype = RONDE_FLOAT32;
    request.struct_size = sizeof request;
    request.op = RONDE_ALLREDUCE;
    request.reduce_op = RONDE_SUM;
    request.name = name;
    request.name_bytes = name == nullptr ? 0 : std::string(name).size();
    request.inputs = &tensor;
    request.count = 1;
  }
};

std::uint64_t epoch() {
  ronde_topology topology{};
  topology.struct_size = sizeof topology;
  EXPECT_EQ(ronde_get_topology(nullptr, &topology), RONDE_OK) << ronde_last_error();
  return topology.epoch;
}

TEST_F(OneRank, ASlotIsItsOwnTicketAndComesBack) {
  Work work("slot");
  int64_t slot = -1;
  ASSERT_EQ(ronde_register_slot(nullptr, &work.request, &slot), RONDE_OK);
  ronde_ticket* ticket = nullptr;
  ASSERT_EQ(ronde_slot_ticket(slot, &ticket), RONDE_OK);
  EXPECT_EQ(ticket, nullptr) << "never submitted";
  EXPECT_EQ(ronde_wait_slot(slot, -1), RONDE_INVALID_ARGUMENT);
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(ronde_submit_slot(slot), RONDE_OK) << ronde_last_error();
    EXPECT_EQ(ronde_submit_slot(slot), RONDE_DUPLICATE_NAME) << "neither waited for nor released";
    ASSERT_EQ(ronde_wait_slot(slot, -1), RONDE_OK) << ronde_last_error();
  }
  ASSERT_EQ(ronde_unregister_slot(slot), RONDE_OK);
  EXPECT_EQ(ronde_submit_slot(slot), RONDE_INVALID_ARGUMENT);
}

TEST_F(OneRank, SlotsAreSubmittedInOneCall) {
  Work first("first"), second("second"), third("third");
  int64_t slots[3] = {-1, -1, -1};
  ASSERT_EQ(ronde_register_slot(nullptr, &first.request, &slots[0]), RONDE_OK);
  ASSERT_EQ(ronde_register_slot(nullptr, &second.request, &slots[1]), RONDE_OK);
  ASSERT_EQ(ronde_register_slot(nullptr, &third.request, &slots[2]), RONDE_OK);
  size_t submitted = 7;
  ASSERT_EQ(ronde_submit_slots(slots, 3, &submitted), RONDE_OK) << ronde_last_error();
  EXPECT_EQ(submitted, 3u);
  ASSERT_EQ(ronde_wait_slot(slots[0], -1), RONDE_OK);
  ASSERT_EQ(ronde_wait_slot(slots[2], -1), RONDE_OK);
  EXPECT_EQ(ronde_submit_slots(slots, 3, &submitted), RONDE_DUPLICATE_NAME) << "the second was not waited for";
  EXPECT_EQ(submitted, 1u) << "the third was not begun";
  ASSERT_EQ(ronde_wait_slot(slots[0], -1), RONDE_OK);
  ASSERT_EQ(ronde_wait_slot(slots[1], -1), RONDE_OK);
  EXPECT_EQ(ronde_submit_slots(nullptr, 1, &submitted), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_submit_slots(slots, 3, nullptr), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_submit_slots(nullptr, 0, &submitted), RONDE_OK);
  for (const int64_t slot : slots) {
    ASSERT_EQ(ronde_unregister_slot(slot), RONDE_OK);
  }
}

// Whoever unregisters may free what `user` points to once the callback has come; the slot itself must outlive it.
TEST_F(OneRank, AnUnregisteredSlotStillCallsBackOnce) {
  static std::atomic<int> calls;
  calls = 0;
  for (int round = 1; round <= 200; ++round) {
    Work work("slot");
    work.request.on_done = [](void*, ronde_ticket* ticket, ronde_status status) {
      EXPECT_NE(ticket, nullptr);
      EXPECT_EQ(status, RONDE_OK);
      ++calls;
      calls.notify_all();
    };
    int64_t slot = -1;
    ASSERT_EQ(ronde_register_slot(nullptr, &work.request, &slot), RONDE_OK);
    ASSERT_EQ(ronde_submit_slot(slot), RONDE_OK) << ronde_last_error();
    ASSERT_EQ(ronde_unregister_slot(slot), RONDE_OK);
    while (calls != round) {
      calls.wait(round - 1);
    }
  }
}

TEST_F(OneRank, ABlockingCallInACallbackIsRefused) {
  static std::atomic<int> answer;
  answer = -1;
  Work outer("outer");
  outer.request.on_done = [](void*, ronde_ticket*, ronde_status) {
    Work inner("inner");
    const ronde_status status = ronde_execute(nullptr, &inner.request, -1, nullptr);
    answer = status;
    answer.notify_all();
  };
  ronde_ticket* ticket = nullptr;
  ASSERT_EQ(ronde_submit(nullptr, &outer.request, &ticket), RONDE_OK);
  answer.wait(-1);
  EXPECT_EQ(answer, RONDE_WOULD_DEADLOCK);
  EXPECT_EQ(ronde_release(ticket), RONDE_OK);
}

TEST_F(OneRank, ACallWithoutANameIsNumberedByItsSubmit) {
  std::uint64_t before = 0;
  ASSERT_EQ(ronde_call_number(nullptr, 0, &before), RONDE_OK);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    Work work(nullptr);
    std::uint64_t taken = 0;
    work.request.taken = &taken;
    EXPECT_EQ(ronde_execute(nullptr, &work.request, -1, nullptr), RONDE_OK) << ronde_last_error();
    EXPECT_EQ(taken, before + step);
  }
  Work named("named");
  std::uint64_t taken = 1;
  named.request.taken = &taken;
  EXPECT_EQ(ronde_execute(nullptr, &named.request, -1, nullptr), RONDE_OK) << ronde_last_error();
  EXPECT_EQ(taken, 0u);
}

TEST_F(OneRank, ACallWithoutANameCountsWhateverRefusesIt) {
  std::uint64_t before = 0;
  ASSERT_EQ(ronde_call_number(nullptr, 0, &before), RONDE_OK);
  Work no_tensors(nullptr);
  no_tensors.request.inputs = nullptr;
  Work no_type(nullptr);
  no_type.tensor.dtype = static_cast<ronde_dtype>(77);
  Work* works[] = {&no_tensors, &no_type};
  for (Work* work : works) {
    std::uint64_t taken = 0;
    work->request.taken = &taken;
    ronde_ticket* ticket = nullptr;
    EXPECT_NE(ronde_submit(nullptr, &work->request, &ticket), RONDE_OK);
    EXPECT_EQ(taken, ++before);
  }
  Work no_group(nullptr);
  std::uint64_t taken = 1;
  no_group.request.taken = &taken;
  no_group.request.group = 9;
  EXPECT_EQ(ronde_execute(nullptr, &no_group.request, -1, nullptr), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(taken, 0u);
  Work good(nullptr);
  good.request.taken = &taken;
  EXPECT_EQ(ronde_execute(nullptr, &good.request, -1, nullptr), RONDE_OK) << ronde_last_error();
  EXPECT_EQ(taken, before + 1);
}

TEST_F(OneRank, WhatWaitsForOtherRanksIsRefusedInACallback) {
  struct Answers {
    std::atomic<int> init{-1};
    std::atomic<int> create{-1};
    std::atomic<int> done{0};
  };
  static Answers* answers;
  Answers all;
  answers = &all;
  Work outer("outer");
  outer.request.on_done = [](void*, ronde_ticket*, ronde_status) {
    answers->init = ronde_init(nullptr);
    ronde_engine* engine = nullptr;
    answers->create = ronde_engine_create(nullptr, &engine);
    answers->done = 1;
    answers->done.notify_all();
  };
  ronde_ticket* ticket = nullptr;
  ASSERT_EQ(ronde_submit(nullptr, &outer.request, &ticket), RONDE_OK);
  all.done.wait(0);
  EXPECT_EQ(all.init, RONDE_OK) << "already initialised";
  EXPECT_EQ(all.create, RONDE_WOULD_DEADLOCK);
  EXPECT_EQ(ronde_release(ticket), RONDE_OK);
}

TEST_F(OneRank, APlanIsStartedAndWaitedForAgainAndAgain) {
  Work first("first");
  Work second("second");
  const ronde_request requests[] = {first.request, second.request};
  ronde_plan* plan = nullptr;
  ASSERT_EQ(ronde_plan_create(nullptr, requests, 2, &plan), RONDE_OK) << ronde_last_error();
  EXPECT_EQ(ronde_plan_wait(plan, -1), RONDE_INVALID_ARGUMENT) << "never started";
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ronde_plan_start(plan), RONDE_OK) << ronde_last_error();
    EXPECT_EQ(ronde_plan_start(plan), RONDE_DUPLICATE_NAME);
    ASSERT_EQ(ronde_plan_wait(plan, -1), RONDE_OK) << ronde_last_error();
  }
  ASSERT_EQ(ronde_plan_start(plan), RONDE_OK);
  ASSERT_EQ(ronde_plan_destroy(plan), RONDE_OK) << ronde_last_error();
  ASSERT_EQ(ronde_execute(nullptr, &first.request, -1, nullptr), RONDE_OK) << "the names are free again";
  const ronde_request twice[] = {first.request, first.request};
  EXPECT_EQ(ronde_plan_create(nullptr, twice, 2, &plan), RONDE_DUPLICATE_NAME);
}

// They would all be reduced in the first one's group.
TEST_F(OneRank, APlanOfTwoGroupsIsRefused) {
  const int32_t ranks[] = {0};
  int32_t group = 0;
  ASSERT_EQ(ronde_group_create(nullptr, ranks, 1, &group), RONDE_OK) << ronde_last_error();
  Work first("first");
  Work second("second");
  second.request.group = group;
  const ronde_request requests[] = {first.request, second.request};
  ronde_plan* plan = nullptr;
  EXPECT_EQ(ronde_plan_create(nullptr, requests, 2, &plan), RONDE_INVALID_ARGUMENT);
  EXPECT_THAT(ronde_last_error(), testing::HasSubstr("'second' is a request of group"));
  EXPECT_EQ(plan, nullptr);
}

TEST_F(OneRank, ABucketIsMemory) {
  void* data = nullptr;
  ASSERT_EQ(ronde_alloc_shared(nullptr, "b", 1, 10000, &data), RONDE_OK) << ronde_last_error();
  static_cast<char*>(data)[9999] = 1;
  EXPECT_EQ(ronde_free_shared(static_cast<char*>(data) + 1), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_free_shared(data), RONDE_OK);
  EXPECT_EQ(ronde_free_shared(data), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_free_shared(nullptr), RONDE_OK);
  ASSERT_EQ(ronde_alloc_bucket(nullptr, "b", 1, 10000, &data), RONDE_OK) << "by its name until 0.1";
  EXPECT_EQ(ronde_free_bucket(data), RONDE_OK);
}

TEST_F(OneRank, TheTableInForceIsTold) {
  const char* text = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(ronde_get_table(nullptr, &text, &bytes), RONDE_OK) << ronde_last_error();
  EXPECT_EQ(std::string(text, bytes).rfind("ranks 1: inline ", 0), 0u) << text;
  EXPECT_EQ(ronde_get_table(nullptr, nullptr, &bytes), RONDE_INVALID_ARGUMENT);
}

TEST(CApi, ByWhatDataMoves) {
  const char* name = nullptr;
  int32_t mpi_threads = 7;
  ASSERT_EQ(ronde_shutdown(), RONDE_OK);
  EXPECT_EQ(ronde_get_backend(nullptr, &name, &mpi_threads), RONDE_NOT_INITIALIZED);
  ASSERT_EQ(ronde_init(nullptr), RONDE_OK);
  ASSERT_EQ(ronde_get_backend(nullptr, &name, &mpi_threads), RONDE_OK) << ronde_last_error();
  EXPECT_STREQ(name, "shm");
  EXPECT_EQ(mpi_threads, 0);
  EXPECT_EQ(ronde_get_backend(nullptr, nullptr, &mpi_threads), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_get_backend(nullptr, &name, nullptr), RONDE_INVALID_ARGUMENT);
}

TEST(CApi, AFailedInitDoesNotCount) {
  ASSERT_EQ(ronde_init(nullptr), RONDE_OK);
  const std::uint64_t before = epoch();
  ASSERT_EQ(ronde_shutdown(), RONDE_OK);
  ronde_options options{};
  options.struct_size = sizeof options;
  options.rank = 0;
  options.size = 2;
  options.local_rank = options.local_size = options.cross_rank = options.cross_size = -1;
  EXPECT_EQ(ronde_init(&options), RONDE_INVALID_ARGUMENT) << "there is no store to meet at";
  EXPECT_NE(std::string(ronde_last_error()).find("RONDE_STORE"), std::string::npos) << ronde_last_error();
  ASSERT_EQ(ronde_init(nullptr), RONDE_OK);
  EXPECT_EQ(epoch(), before + 1) << "or it would not meet the others, who did not see it fail";
  ASSERT_EQ(ronde_shutdown(), RONDE_OK);
}

TEST(CApi, ATableThatCannotBeUnderstoodEndsInit) {
  ASSERT_EQ(::setenv("RONDE_TABLE", "ranks two", 1), 0);
  EXPECT_EQ(ronde_init(nullptr), RONDE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ronde_last_error()).find("RONDE_TABLE: in the row \"ranks two\""), std::string::npos)
      << ronde_last_error();
  ASSERT_EQ(::unsetenv("RONDE_TABLE"), 0);
  EXPECT_EQ(ronde_init(nullptr), RONDE_OK) << ronde_last_error();
  ASSERT_EQ(ronde_shutdown(), RONDE_OK);
}

TEST(CApi, AStoreServesUntilItIsClosed) {
  ronde_store* store = nullptr;
  const char* text = nullptr;
  const char* secret = nullptr;
  ASSERT_EQ(ronde_store_open(&store, &text, &secret), RONDE_OK) << ronde_last_error();
  const std::string address = text;
  const std::string key = secret;
  const std::string path = address.substr(std::string("unix:").size());
  EXPECT_EQ(::access(path.c_str(), F_OK), 0) << path;
  const std::string meeting = "some of them";
  ronde_options options{};
  options.struct_size = sizeof options;
  options.size = options.local_size = 2;
  options.cross_size = 1;
  options.store = address.data();
  options.store_bytes = address.size();
  options.key = key.data();
  options.key_bytes = key.size();
  options.meeting = meeting.data();
  options.meeting_bytes = meeting.size();
  options.init_timeout_s = 0.05;
  ronde_engine* engine = nullptr;
  EXPECT_EQ(ronde_engine_create(&options, &engine), RONDE_TIMED_OUT) << "rank 1 is nobody";
  EXPECT_NE(std::string(ronde_last_error()).find("named/some of them"), std::string::npos) << ronde_last_error();
  const pid_t child = ronde::test::fork_at_rest();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::_exit(ronde_store_close(store) == RONDE_FORKED ? 0 : 1);
  }
  int ended = -1;
  EXPECT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(::access(path.c_str(), F_OK), 0) << "a child ends nothing of its parent's";
  EXPECT_EQ(ronde_store_close(store), RONDE_OK);
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the folder goes with the store";
  EXPECT_NE(ronde_engine_create(&options, &engine), RONDE_OK) << "nobody listens there any more";
  EXPECT_EQ(ronde_store_open(nullptr, nullptr, nullptr), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_store_close(nullptr), RONDE_OK);
}

TEST_F(OneRank, AGroupMayBeMadeByItsMembersAlone) {
  const std::int32_t alone = 0;
  std::int32_t group = -1;
  ronde_options options{};
  options.struct_size = sizeof options;
  options.rank = options.size = options.local_rank = options.local_size = options.cross_rank = options.cross_size = -1;
  EXPECT_EQ(ronde_group_make(nullptr, &options, &alone, 1, &group), RONDE_INVALID_ARGUMENT) << "without a name";
  options.meeting = "alone";
  options.meeting_bytes = 5;
  EXPECT_EQ(ronde_group_make(nullptr, &options, &alone, 0, &group), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_group_make(nullptr, &options, nullptr, 1, &group), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_group_make(nullptr, &options, &alone, 1, nullptr), RONDE_INVALID_ARGUMENT);
  ASSERT_EQ(ronde_group_make(nullptr, &options, &alone, 1, &group), RONDE_OK) << ronde_last_error();
  Work work("in the group");
  work.request.group = group;
  EXPECT_EQ(ronde_execute(nullptr, &work.request, -1, nullptr), RONDE_OK) << ronde_last_error();
  EXPECT_EQ(ronde_group_destroy(nullptr, group), RONDE_OK) << ronde_last_error();
  EXPECT_EQ(ronde_execute(nullptr, &work.request, -1, nullptr), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_group_destroy(nullptr, group), RONDE_INVALID_ARGUMENT);
}

TEST_F(OneRank, AnOutputMayNotCoverAPartOfItsInput) {
  Work work("covers");
  std::vector<float> values(20);
  const std::int64_t shape[] = {10};
  ronde_tensor input = *work.request.inputs;
  input.data = values.data();
  input.shape = shape;
  input.ndim = 1;
  ronde_tensor output = input;
  work.request.inputs = &input;
  work.request.outputs = &output;
  for (const int apart : {1, 9, 10}) {
    output.data = values.data() + apart;
    const ronde_status status = ronde_execute(nullptr, &work.request, -1, nullptr);
    EXPECT_EQ(status, apart < 10 ? RONDE_INVALID_ARGUMENT : RONDE_OK) << apart << ": " << ronde_last_error();
  }
}

TEST_F(OneRank, ACallSiteIsANumberOfItsText) {
  std::int32_t first = -1;
  std::int32_t again = -1;
  EXPECT_EQ(ronde_call_site("main.c:3", 8, &first), RONDE_OK);
  EXPECT_EQ(ronde_call_site("main.c:3", 8, &again), RONDE_OK);
  EXPECT_GT(first, 0);
  EXPECT_EQ(first, again);
  EXPECT_EQ(ronde_call_site(nullptr, 8, &first), RONDE_INVALID_ARGUMENT);
  EXPECT_EQ(ronde_call_site("main.c:3", 8, nullptr), RONDE_INVALID_ARGUMENT);
}

}  // namespace
