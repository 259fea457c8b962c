// The backend of messages over loopback links: what plans compute is the collectives' conformance test; here its
// buckets, several at once, each through many instances, in any order of submission, steps and links.
#include "backend/messages/messages.h"

#include <gtest/gtest.h>

#include <random>

#include "collectives/schedule/select.h"
#include "collectives/testing/jobs.h"
#include "collectives/tuning/host_table.h"
#include "support/effort.h"
#include "transport/loopback/links.h"

namespace ronde::backend {
namespace {

using collectives::Job;
using collectives::JobSpec;

constexpr Thresholds kSmall = {.one_shot = 512, .chunk = 256};

JobSpec spec_of(int size, std::vector<std::int64_t> elements, DType dtype = DType::float32) {
  JobSpec spec;
  spec.size = size;
  spec.dtype = dtype;
  spec.elements = std::move(elements);
  return spec;
}

Bucket bucket_of(std::uint32_t id, const JobSpec& spec) {
  Bucket bucket;
  bucket.id = id;
  for (const std::int64_t elements : spec.elements) {
    bucket.members.emplace_back();
    bucket.members.back().name = "member " + std::to_string(bucket.members.size());
    bucket.members.back().descriptor.reduce_op = spec.reduce_op;
    bucket.members.back().descriptor.prescale = spec.prescale;
    bucket.members.back().descriptor.postscale = spec.postscale;
    bucket.members.back().descriptor.tensors.push_back({spec.dtype, {elements}});
  }
  return bucket;
}

class BucketsOfMessages {
 public:
  /// `room`: messages that a link takes.
  BucketsOfMessages(int size, std::size_t room, const std::vector<JobSpec>& specs, int instances)
      : BucketsOfMessages(collectives::RankLayout::apart(size), room, specs, instances) {}
  BucketsOfMessages(const collectives::RankLayout& layout, std::size_t room, const std::vector<JobSpec>& specs,
                    int instances)
      : net_(layout.ranks(), room), ranks_(static_cast<std::size_t>(layout.ranks())) {
    const int size = layout.ranks();
    for (std::size_t index = 0; index < specs.size(); ++index) {
      jobs_.emplace_back();
      for (int instance = 0; instance < instances; ++instance) {
        JobSpec spec = specs[index];
        spec.seed = index * 1000 + static_cast<std::uint64_t>(instance);
        spec.in_place = instance % 3 != 0;
        jobs_.back().push_back(make_job(spec));
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      Rank& each = ranks_[static_cast<std::size_t>(rank)];
      each.mailbox = std::make_unique<transport::Mailbox>(&net_.transport(rank), rank, size);
      each.backend = make_message_backend(*each.mailbox, layout);
      for (std::size_t index = 0; index < specs.size(); ++index) {
        auto made = each.backend->prepare(bucket_of(static_cast<std::uint32_t>(index), specs[index]), kSmall);
        EXPECT_TRUE(made.is_ok());
        each.buckets.push_back(std::move(made).value());
        each.buckets.back()->enter(1);
      }
      each.done.resize(specs.size());
      each.is_published.resize(specs.size());
    }
  }

  transport::LoopbackNet& net() { return net_; }
  transport::Mailbox& mailbox(std::size_t rank) { return *ranks_[rank].mailbox; }
  MessageBackend& backend(std::size_t rank) { return *ranks_[rank].backend; }
  PersistentCollective& bucket(std::size_t rank, std::size_t index) { return *ranks_[rank].buckets[index]; }
  Job& job(std::size_t index, std::size_t instance) { return jobs_[index][instance]; }
  std::size_t done(std::size_t rank, std::size_t index) const { return ranks_[rank].done[index]; }

  void submit(std::size_t rank, std::size_t index, std::uint64_t calls = 0) {
    const Job& job = jobs_[index][ranks_[rank].done[index]];
    for (std::size_t member = 0; member < job.plans[rank].members.size(); ++member) {
      const PlanMember& entry = job.plans[rank].members[member];
      const auto& content = job.input_content[rank][member];  // in place it may be gone since a cancelled try
      std::copy(content.begin(), content.end(), static_cast<std::byte*>(entry.input.data));
      const RequestTensor tensor{entry.input, entry.output};
      bucket(rank, index).bind(member, {&tensor, 1});
      bucket(rank, index).copy_in(member);
    }
    bucket(rank, index).publish(calls);
    ranks_[rank].is_published[index] = true;
  }
  Progress advance(std::size_t rank, std::size_t index) {
    const Progress progress = bucket(rank, index).advance();
    if (progress == Progress::done) {
      ranks_[rank].is_published[index] = false;
      ++ranks_[rank].done[index];
    }
    return progress;
  }
  /// A bucket beside those that are in force.
  void prepare_more(std::uint32_t id, const JobSpec& spec) {
    for (Rank& rank : ranks_) {
      rank.prepared.push_back(rank.backend->prepare(bucket_of(id, spec), kSmall).value());
    }
  }
  void cancel_all(std::uint32_t next_epoch) {
    for (Rank& rank : ranks_) {
      for (std::size_t index = 0; index < rank.buckets.size(); ++index) {
        if (rank.is_published[index]) {
          rank.buckets[index]->cancel();
          rank.is_published[index] = false;
        }
        rank.buckets[index]->enter(next_epoch);
      }
    }
  }

  /// One thing that a rank can do for one bucket. Empty or what is wrong.
  std::string act(std::size_t rank, std::size_t index, bool& moved) {
    moved = done(rank, index) < jobs_[index].size();
    if (!moved) {
      return {};
    }
    if (!ranks_[rank].is_published[index]) {
      submit(rank, index);
      return {};
    }
    const std::size_t instance = done(rank, index);
    const Progress progress = advance(rank, index);
    moved = progress != Progress::idle;
    const std::string wrong = progress == Progress::done ? jobs_[index][instance].wrong(rank) : "";
    return wrong.empty() ? wrong
                         : "bucket " + std::to_string(index) + ", instance " + std::to_string(instance) + ": " + wrong;
  }

  /// In random order; links hold back what they have now and then.
  std::string run(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::size_t size = ranks_.size();
    const std::size_t patience = 100 * size * jobs_.size();
    for (std::size_t idle = 0; idle < 3 * patience;) {
      const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
      if (idle >= patience) {
        net_.release_all();
        // As engines do in each round: who waits for room in a link may have nothing to ask the other way for.
        for (Rank& rank : ranks_) {
          rank.mailbox->receive();
        }
      } else if (pick(20) == 0) {
        net_.hold(static_cast<int>(pick(size)), static_cast<int>(pick(size)));
      } else if (pick(20) == 0) {
        net_.release(static_cast<int>(pick(size)), static_cast<int>(pick(size)));
      }
      bool moved = false;
      if (std::string wrong = act(pick(size), pick(jobs_.size()), moved); !wrong.empty()) {
        return wrong;
      }
      idle = moved ? 0 : idle + 1;
    }
    net_.release_all();
    for (std::size_t rank = 0; rank < size; ++rank) {
      for (std::size_t index = 0; index < jobs_.size(); ++index) {
        if (done(rank, index) < jobs_[index].size()) {
          return "rank " + std::to_string(rank) + " waits for ever";
        }
      }
    }
    return {};
  }

 private:
  struct Rank {
    std::unique_ptr<transport::Mailbox> mailbox;
    std::unique_ptr<MessageBackend> backend;
    std::vector<std::unique_ptr<PersistentCollective>> buckets;   ///< before the backend
    std::vector<std::unique_ptr<PersistentCollective>> prepared;  ///< not in force
    std::vector<std::size_t> done;                                ///< instances, by bucket
    std::vector<bool> is_published;
  };

  transport::LoopbackNet net_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Job>> jobs_;  ///< bucket x instance
};

class MessageBuckets : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MessageBuckets, testing::Values(1, 2, 3, 5, 8));

TEST_P(MessageBuckets, ManyAtOnceInAnyOrder) {
  std::vector<JobSpec> specs;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int32}) {
    specs.push_back(spec_of(GetParam(), {1}, dtype));
    specs.push_back(spec_of(GetParam(), {0}, dtype));
    specs.push_back(spec_of(GetParam(), {1, 0, 3, 17, 0, 100}, dtype));
    specs.push_back(spec_of(GetParam(), {129, 1, 900}, dtype));
    specs.back().reduce_op = ReduceOp::average;
    specs.back().prescale = 0.37;
    specs.back().postscale = 1.7;
  }
  for (int seed = 1; seed <= effort(20); ++seed) {
    BucketsOfMessages world(GetParam(), static_cast<std::size_t>(seed % 3 + 1), specs, 6);
    EXPECT_EQ(world.run(static_cast<std::uint64_t>(seed)), "") << seed;
  }
}

// `again` promises an end with results.
TEST(MessageBucket, PromisesNothingWhereRanksDifferAlsoWithoutRoomToSaySo) {
  BucketsOfMessages world(2, 1, {spec_of(2, {3})}, 6);
  world.net().hold(0, 1);
  for (int i = 0; i < 2; ++i) {  // one that the link takes, and one that is kept
    world.mailbox(0).compose(0);
    world.mailbox(0).send_note(1);
  }
  world.submit(0, 0, 1);
  world.submit(1, 0, 2);
  world.advance(1, 0);
  EXPECT_EQ(world.advance(0, 0), Progress::idle);
  world.net().release(0, 1);
  for (int step = 0; step < 20; ++step) {
    for (const std::size_t rank : {1, 0}) {
      if (world.done(rank, 0) == 0) {
        EXPECT_NE(world.advance(rank, 0), Progress::again);
      }
    }
  }
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(world.done(rank, 0), 1u);
    EXPECT_TRUE(world.bucket(rank, 0).was_void());
  }
}

TEST(MessageBucket, CancelsWhatNotAllHavePublishedAndGoesOnInTheNextEpoch) {
  for (const std::int64_t elements : {0, 3, 2000}) {
    BucketsOfMessages world(3, 100, {spec_of(3, {elements})}, 6);
    bool moved = false;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      world.submit(rank, 0);
    }
    for (std::size_t step = 0; step < 300; ++step) {
      if (world.done(step % 3, 0) == 0) {
        ASSERT_EQ(world.act(step % 3, 0, moved), "");
      }
    }
    // Two of three publish the second instance: nobody may finish it, and all can tell.
    world.submit(0, 0);
    world.submit(2, 0);
    for (int round = 0; round < 2; ++round) {
      for (const std::size_t rank : {0u, 2u}) {
        EXPECT_NE(world.advance(rank, 0), Progress::done);
      }
    }
    for (const std::size_t rank : {0u, 2u}) {
      EXPECT_EQ(world.bucket(rank, 0).waiting_for(), std::vector<int>{1});
      EXPECT_EQ(world.bucket(rank, 0).published_by(0), 2u);
      EXPECT_EQ(world.bucket(rank, 0).published_by(1), 1u);
      EXPECT_EQ(world.bucket(rank, 0).published_by(2), 2u);
    }
    EXPECT_EQ(world.job(0, 1).wrong(0).empty(), elements == 0) << "nothing of it is there";
    world.cancel_all(2);
    EXPECT_EQ(world.bucket(1, 0).published_by(0), 0u) << "messages of the epoch before";
    EXPECT_EQ(world.run(5), "");
  }
}

TEST(MessageBucket, IsAnnouncedToAllBeforeItsRankIsFrozen) {
  BucketsOfMessages world(3, 1, {spec_of(3, {2000}), spec_of(3, {5})}, 1);
  world.submit(0, 0);
  world.submit(0, 1);
  world.advance(0, 0);  // links have room for one message
  world.backend(0).announce();
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t rank : {0u, 1u, 2u}) {
      world.mailbox(rank).flush();
      world.mailbox(rank).receive();
    }
  }
  for (const std::size_t rank : {0u, 1u, 2u}) {
    EXPECT_EQ(world.bucket(rank, 0).published_by(0), 1u);
    EXPECT_EQ(world.bucket(rank, 1).published_by(0), 1u);
  }
  EXPECT_EQ(world.run(3), "") << "and is sent once";
}

TEST(MessageBucket, IsVoidOnEveryRankIfCallsDiffer) {
  for (const std::int64_t elements : {3, 2000}) {
    BucketsOfMessages world(3, 100, {spec_of(3, {elements})}, 2);
    std::vector<std::vector<std::byte>> before;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      world.submit(rank, 0, rank == 1 ? 7 : 8);
      before.push_back(world.job(0, 0).outputs[rank][0].content());
    }
    for (std::size_t step = 0; step < 30; ++step) {
      if (world.done(step % 3, 0) == 0) {
        world.advance(step % 3, 0);
      }
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(world.done(rank, 0), 1u);
      EXPECT_TRUE(world.bucket(rank, 0).was_void());
      EXPECT_EQ(world.job(0, 0).outputs[rank][0].content(), before[rank]) << "nothing was touched";
    }
    EXPECT_EQ(world.run(1), "") << "the next instance is not disturbed";
    EXPECT_FALSE(world.bucket(0, 0).was_void());
  }
}

// ---- Between hosts of several ranks

const std::vector<std::vector<int>> kHosts = {{0, 0, 2},       {0, 1, 1},       {0, 0, 2, 2},      {0, 0, 2, 2, 2},
                                              {0, 1, 1, 1, 1}, {0, 1, 0, 1, 1}, {0, 0, 0, 3, 3, 5},
                                              // what is small goes in two turns or more
                                              {0, 1, 2, 3, 4, 5, 6, 7, 8},
                                              {0, 0, 2, 3, 4, 5, 6, 6, 8, 9, 10}};

/// For what to expect: few ranks are added in their order, whatever hosts they are on.
std::vector<int> added_by_hosts(const std::vector<int>& first_of) {
  const auto few = static_cast<std::size_t>(collectives::messages::MessageLimits().rank_order_to);
  return first_of.size() > few ? first_of : std::vector<int>();
}

/// Hosts are so many that what is large goes in turns, which add in another order.
bool takes_turns(const std::vector<int>& first_of) {
  return collectives::HostTable::built_in().of(collectives::RankLayout(first_of).hosts()).large_turn <
         collectives::messages::kEachWithEach;
}

TEST(MessageBucketOfHosts, ManyAtOnceInAnyOrder) {
  for (const std::vector<int>& first_of : kHosts) {
    const int size = static_cast<int>(first_of.size());
    std::vector<JobSpec> specs;
    for (const DType dtype : {DType::float32, DType::float16, DType::int32}) {
      for (const std::vector<std::int64_t>& elements :
           std::vector<std::vector<std::int64_t>>{{1}, {0}, {1, 0, 3, 17, 0, 100}, {129, 1, 900}, {3000}}) {
        specs.push_back(spec_of(size, elements, dtype));
        specs.back().first_of = added_by_hosts(first_of);
        specs.back().any_order = takes_turns(first_of);
        // A host's part of a float16 average is rounded.
        const bool averages = elements.size() == 3 && !(specs.back().any_order && dtype == DType::float16);
        specs.back().reduce_op = averages ? ReduceOp::average : ReduceOp::sum;
      }
    }
    for (int seed = 1; seed <= effort(6); ++seed) {
      BucketsOfMessages world(collectives::RankLayout(first_of), static_cast<std::size_t>(seed % 3 + 1), specs, 6);
      EXPECT_EQ(world.run(static_cast<std::uint64_t>(seed)), "") << seed;
    }
  }
}

TEST(MessageBucketOfHosts, IsVoidOnEveryRankIfCallsDiffer) {
  for (const std::vector<int>& first_of : kHosts) {
    const std::size_t size = first_of.size();
    for (std::size_t other = 0; other < size; ++other) {
      for (const std::int64_t elements : {3, 2000}) {
        JobSpec spec = spec_of(static_cast<int>(size), {elements});
        spec.first_of = added_by_hosts(first_of);
        spec.any_order = takes_turns(first_of);
        BucketsOfMessages world(collectives::RankLayout(first_of), 100, {spec}, 2);
        std::vector<std::vector<std::byte>> before;
        for (std::size_t rank = 0; rank < size; ++rank) {
          world.submit(rank, 0, rank == other ? 7 : 8);
          before.push_back(world.job(0, 0).outputs[rank][0].content());
        }
        for (std::size_t step = 0; step < 60 * size; ++step) {
          if (world.done(step % size, 0) == 0) {
            world.advance(step % size, 0);
          }
        }
        for (std::size_t rank = 0; rank < size; ++rank) {
          EXPECT_EQ(world.done(rank, 0), 1u);
          EXPECT_TRUE(world.bucket(rank, 0).was_void()) << "rank " << rank << " of " << size << ", other " << other;
          EXPECT_EQ(world.job(0, 0).outputs[rank][0].content(), before[rank]) << "nothing was touched";
        }
        EXPECT_EQ(world.run(1), "") << "the next instance is not disturbed";
        EXPECT_FALSE(world.bucket(0, 0).was_void());
      }
    }
  }
}

/// Ranks stop anywhere in the second instance, which not all may have published: all know the same of all then, and
/// none has touched an output of one that is cancelled.
TEST(MessageBucketOfHosts, FrozenRanksKnowTheSameOfAll) {
  std::mt19937_64 random(5);
  for (int round = 0; round < effort(400); ++round) {
    const std::vector<int>& first_of = kHosts[static_cast<std::size_t>(round) % kHosts.size()];
    const std::size_t size = first_of.size();
    const bool all_publish = round % 3 == 0;
    JobSpec spec = spec_of(static_cast<int>(size), {round % 2 == 0 ? 3 : 2000});
    spec.first_of = added_by_hosts(first_of);
    spec.any_order = takes_turns(first_of);
    BucketsOfMessages world(collectives::RankLayout(first_of), 1 + random() % 3, {spec}, 6);
    bool moved = false;
    for (std::size_t step = 0; step < 400 * size; ++step) {
      if (world.done(step % size, 0) == 0) {
        ASSERT_EQ(world.act(step % size, 0, moved), "");
      }
    }
    const std::size_t late = random() % size;
    std::vector<bool> has_published(size);
    for (std::size_t step = random() % (20 * size); step > 0; --step) {
      const std::size_t rank = random() % size;
      if (!has_published[rank] && (all_publish || rank != late)) {
        world.submit(rank, 0);
        has_published[rank] = true;
      } else if (has_published[rank] && world.done(rank, 0) == 1) {
        world.advance(rank, 0);
      }
    }
    for (std::size_t rank = 0; rank < size; ++rank) {
      world.backend(rank).announce();
    }
    for (int turn = 0; turn < 20; ++turn) {
      for (std::size_t rank = 0; rank < size; ++rank) {
        world.mailbox(rank).flush();
        world.mailbox(rank).receive();
      }
    }
    for (std::size_t rank = 0; rank < size; ++rank) {
      for (std::size_t peer = 0; peer < size; ++peer) {
        EXPECT_EQ(world.bucket(rank, 0).published_by(static_cast<int>(peer)), has_published[peer] ? 2u : 1u)
            << "what rank " << rank << " knows of " << peer << " in round " << round;
      }
    }
    if (std::find(has_published.begin(), has_published.end(), false) != has_published.end()) {
      world.cancel_all(2);
    }
    EXPECT_EQ(world.run(random()), "") << round;
  }
}

/// A bucket that is prepared waits for others, and epochs begin and end meanwhile.
TEST(MessageBucketOfHosts, WhatIsNotInForceIsNotAnnounced) {
  for (const std::vector<int>& first_of : kHosts) {
    JobSpec spec = spec_of(static_cast<int>(first_of.size()), {2000});
    spec.first_of = added_by_hosts(first_of);
    spec.any_order = takes_turns(first_of);
    BucketsOfMessages world(collectives::RankLayout(first_of), 100, {spec}, 2);
    world.prepare_more(1, spec);
    const auto freeze_all = [&] {
      for (std::size_t rank = 0; rank < first_of.size(); ++rank) {
        world.backend(rank).announce();
      }
      for (std::size_t rank = 0; rank < first_of.size(); ++rank) {
        world.mailbox(rank).receive();
        EXPECT_TRUE(world.mailbox(rank).status().is_ok()) << world.mailbox(rank).status().message();
      }
    };
    freeze_all();
    world.cancel_all(2);
    freeze_all();
    for (std::size_t rank = 0; rank < first_of.size(); ++rank) {
      world.bucket(rank, 0).cancel();
    }
    freeze_all();
    world.cancel_all(3);
    EXPECT_EQ(world.run(1), "");
    for (std::size_t rank = 0; rank < first_of.size(); ++rank) {
      EXPECT_EQ(world.mailbox(rank).kept(), 0u) << "nobody will ask for it";
    }
  }
}

TEST(MessageBackend, SaysWhatItSupports) {
  transport::Mailbox mailbox(nullptr, 0, 1);
  const auto backend = make_message_backend(mailbox);
  EXPECT_EQ(backend->name(), "messages");
  Plan plan;
  EXPECT_TRUE(backend->supports(plan));
  plan.kind = OpKind::send;
  EXPECT_EQ(backend->supports(plan).message(), "the messages backend has no send yet");
  EXPECT_EQ(backend->layout(), nullptr) << "one rank replays nothing";
}

TEST(MessageBackend, RefusesBucketsOfSharedMemory) {
  transport::LoopbackNet net(2);
  transport::Mailbox mailbox(&net.transport(0), 0, 2);
  const auto backend = make_message_backend(mailbox);
  Bucket bucket = bucket_of(0, spec_of(2, {5}));
  bucket.members.front().places = {MemoryPlace(0), MemoryPlace(64)};
  EXPECT_EQ(backend->prepare(bucket, kSmall).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace ronde::backend
