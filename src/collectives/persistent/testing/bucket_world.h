// For tests: a world of ranks that run buckets, several at once, each through many instances.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/persistent/bucket.h"
#include "collectives/persistent/ordered_lane.h"
#include "collectives/shm/barrier.h"
#include "collectives/testing/jobs.h"
#include "transport/bell.h"

namespace ronde::collectives {

/// One bucket's description and what its instances reduce. Members of a JobSpec become members of the bucket; the last
/// two, if there are three or more, are two tensors of one.
struct BucketCase {
  BucketKind kind;
  Bucket bucket;
  std::vector<JobSpec> instances;  ///< alike but for seed and place
};

inline BucketCase make_case(BucketKind kind, JobSpec spec, int instances) {
  BucketCase made;
  made.kind = kind;
  made.bucket.has_done_words = kind != BucketKind::inlined;
  for (std::size_t each = 0; each < spec.elements.size(); ++each) {
    if (each < 2 || each + 1 < spec.elements.size()) {
      made.bucket.members.emplace_back();
      made.bucket.members.back().name = "member " + std::to_string(each);
      made.bucket.members.back().descriptor.reduce_op = spec.reduce_op;
      made.bucket.members.back().descriptor.prescale = spec.prescale;
      made.bucket.members.back().descriptor.postscale = spec.postscale;
    }
    made.bucket.members.back().descriptor.tensors.push_back({spec.dtype, {spec.elements[each]}});
  }
  for (int instance = 0; instance < instances; ++instance) {
    spec.seed = mix(spec.seed + static_cast<std::uint64_t>(instance));
    spec.in_place = kind == BucketKind::direct || instance % 3 != 0;
    made.instances.push_back(spec);
  }
  return made;
}

class BucketWorld {
 public:
  BucketWorld(std::vector<std::unique_ptr<transport::HostArena>> arenas, std::vector<BucketCase> cases,
              const Thresholds& thresholds)
      : own_(std::move(arenas)), cases_(std::move(cases)) {
    for (const auto& arena : own_) {
      arenas_.push_back(arena.get());
    }
    set_up(thresholds);
  }
  /// The part of one rank, whose peers are other processes; returns when all have set up theirs.
  BucketWorld(transport::HostArena& arena, std::vector<BucketCase> cases, const Thresholds& thresholds)
      : arenas_(static_cast<std::size_t>(arena.size()), nullptr), cases_(std::move(cases)) {
    arenas_[static_cast<std::size_t>(arena.rank())] = &arena;
    set_up(thresholds);
    HostChannel channel(arena);
    const auto barrier = flag_barrier(channel);
    while (barrier->advance() != Progress::done) {
      std::this_thread::yield();
    }
  }

  bool ok() const { return ok_; }
  HostBucket& bucket(std::size_t rank, std::size_t index) { return *ranks_[rank].buckets[index]; }
  transport::HostArena& arena(std::size_t rank) { return *arenas_[rank]; }
  Job& job(std::size_t index, std::size_t instance) { return jobs_[index][instance]; }

  /// Binds, copies in and publishes the next instance.
  void submit(std::size_t rank, std::size_t index) {
    HostBucket& bucket = *ranks_[rank].buckets[index];
    const Job& job = jobs_[index][bucket.instance()];
    std::size_t tensor = 0;
    for (std::size_t member = 0; member < cases_[index].bucket.members.size(); ++member) {
      std::vector<RequestTensor> tensors;
      for (std::size_t each = 0; each < cases_[index].bucket.members[member].descriptor.tensors.size(); ++each) {
        const PlanMember& entry = job.plans[rank].members[tensor];
        tensors.push_back({entry.input, entry.output});
        // Afresh, since a job is used again after a break and in place its input is gone.
        const std::vector<std::byte>& content = job.input_content[rank][tensor];
        std::byte* const shared = shared_tensor(rank, index, tensor, &MemoryPlace::input);
        std::copy(content.begin(), content.end(),
                  shared != nullptr ? shared : static_cast<std::byte*>(entry.input.data));
        ++tensor;
      }
      bucket.bind(member, tensors);
      bucket.copy_in(member);
    }
    bucket.publish();
  }

  /// One thing that the rank can do for the bucket: submit or a step. Empty or what is wrong; `moved` if anything was.
  std::string act(std::size_t rank, std::size_t index, bool& moved) {
    HostBucket& bucket = *ranks_[rank].buckets[index];
    moved = true;
    if (bucket.instance() == jobs_[index].size()) {
      moved = false;
      return {};
    }
    if (!bucket.is_published()) {
      submit(rank, index);
      return {};
    }
    const std::uint64_t instance = bucket.instance();
    const Progress progress = bucket.advance();
    moved = progress != Progress::idle;
    if (progress != Progress::done) {
      return bucket.instance() == instance ? "" : "an instance was counted that is not done";
    }
    for (std::size_t tensor = 0; tensor < cases_[index].instances[instance].elements.size(); ++tensor) {
      if (const std::byte* const shared = shared_tensor(rank, index, tensor, &MemoryPlace::output)) {
        const Tensor& output = jobs_[index][instance].plans[rank].members[tensor].output;
        std::memcpy(output.data, shared, output.bytes());
      }
    }
    const std::string wrong = jobs_[index][instance].wrong(rank);
    return wrong.empty()
               ? wrong
               : "bucket " + std::to_string(index) + " (" + std::string(bucket_kind_name(cases_[index].kind)) +
                     "), instance " + std::to_string(instance + 1) + ": " + wrong;
  }

  bool is_over(std::size_t rank) const {
    for (std::size_t index = 0; index < cases_.size(); ++index) {
      if (ranks_[rank].buckets[index]->instance() < jobs_[index].size()) {
        return false;
      }
    }
    return true;
  }

  /// All ranks and buckets from one thread, in a random interleaving.
  std::string run_by_hand(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t idle = 0; idle < 64 * arenas_.size() * cases_.size() + 1000;) {
      bool moved = false;
      const std::size_t favourite = random() / 64 % arenas_.size();
      const std::size_t rank = random() % 3 == 0 ? favourite : random() % arenas_.size();
      if (std::string wrong = act(rank, random() % cases_.size(), moved); !wrong.empty()) {
        return wrong;
      }
      idle = moved ? 0 : idle + 1;
    }
    for (std::size_t rank = 0; rank < arenas_.size(); ++rank) {
      if (!is_over(rank)) {
        return "rank " + std::to_string(rank) + " waits for ever";
      }
    }
    return {};
  }

  /// A thread per rank, which sleeps on its bell whenever it can do nothing.
  std::string run_threads() {
    std::vector<std::string> wrong(arenas_.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < arenas_.size(); ++rank) {
      threads.emplace_back([&, rank] { wrong[rank] = run_rank(rank); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const std::string& each : wrong) {
      if (!each.empty()) {
        return each;
      }
    }
    return {};
  }

  std::string run_rank(std::size_t rank) {
    transport::Sleeper sleeper(arenas_[rank]->control(static_cast<int>(rank)).bell);
    while (!is_over(rank)) {
      bool any = false;
      std::string wrong = act_on_all(rank, any);
      if (!wrong.empty() || any) {
        if (!wrong.empty()) {
          return wrong;
        }
        continue;
      }
      sleeper.arm(transport::kWaiterSleeps);
      wrong = act_on_all(rank, any);
      if (!any && wrong.empty() && sleeper.sleep(30 * kSecond) == transport::Wake::timeout) {
        return "rank " + std::to_string(rank) + " was not woken";
      }
      sleeper.disarm();
      if (!wrong.empty()) {
        return wrong;
      }
    }
    return {};
  }

 private:
  struct RankState {
    std::unique_ptr<OrderedLane> lane;
    std::vector<std::unique_ptr<HostBucket>> buckets;
  };

  std::string act_on_all(std::size_t rank, bool& any) {
    for (std::size_t index = 0; index < cases_.size(); ++index) {
      bool moved = false;
      if (std::string wrong = act(rank, index, moved); !wrong.empty()) {
        return wrong;
      }
      any = any || moved;
    }
    return {};
  }

  void set_up(const Thresholds& thresholds) {
    const std::size_t end = give_out_offsets();
    ranks_.resize(arenas_.size());
    for (transport::HostArena* const arena : arenas_) {
      ok_ = ok_ && (arena == nullptr || arena->own_heap().commit(0, end).is_ok());
    }
    for (std::size_t rank = 0; ok_ && rank < arenas_.size(); ++rank) {
      if (arenas_[rank] == nullptr) {
        continue;
      }
      ranks_[rank].lane = std::make_unique<OrderedLane>(*arenas_[rank], 0, thresholds);
      for (const BucketCase& each : cases_) {
        ranks_[rank].buckets.push_back(make_bucket(*arenas_[rank], each.bucket, thresholds, ranks_[rank].lane.get()));
        ranks_[rank].buckets.back()->enter(1);
      }
    }
    for (const BucketCase& each : cases_) {
      jobs_.emplace_back();
      for (const JobSpec& spec : each.instances) {
        jobs_.back().push_back(make_job(spec));
      }
    }
  }

  /// The lane first, then each bucket's line, slots and tensors; the end of all.
  std::size_t give_out_offsets() {
    std::size_t at = round_up_to_line(OrderedLane::bytes(static_cast<int>(arenas_.size())));
    for (std::size_t index = 0; index < cases_.size(); ++index) {
      Bucket& bucket = cases_[index].bucket;
      bucket.id = static_cast<std::uint32_t>(index);
      const BucketKind kind = cases_[index].kind;
      HostLayout layout{kind, static_cast<std::int64_t>(at), kNoOffset};
      at += line_bytes(kind);
      layout.slots = static_cast<std::int64_t>(at);
      bucket.layout = layout_text(layout);
      at += round_up_to_line(slots_bytes(kind, payload_bytes(bucket)));
      for (BucketMember& member : bucket.members) {
        if (kind == BucketKind::direct) {
          // Not on a line: cuts must find lines themselves. Elsewhere on each rank; on rank 1 the result is, too.
          at += 16;
          const std::size_t room = round_up_to_line(payload_bytes(member.descriptor));
          member.places.clear();
          for (std::size_t rank = 0; rank < arenas_.size(); ++rank) {
            const auto from = static_cast<std::int64_t>(at + rank * transport::kLineBytes);
            const std::size_t apart = room + arenas_.size() * transport::kLineBytes;
            member.places.emplace_back(from, rank == 1 ? from + static_cast<std::int64_t>(apart) : from);
          }
          at += 2 * (room + arenas_.size() * transport::kLineBytes);
        }
      }
      at = round_up_to_line(at);
    }
    return at;
  }

  /// Where a direct bucket's tensor, or its result, lies; null for the other kinds.
  std::byte* shared_tensor(std::size_t rank, std::size_t index, std::size_t tensor, std::int64_t MemoryPlace::*which) {
    for (const BucketMember& member : cases_[index].bucket.members) {
      std::size_t before = 0;
      for (const Descriptor::Spec& spec : member.descriptor.tensors) {
        if (tensor-- == 0) {
          return member.places.empty()
                     ? nullptr
                     : arenas_[rank]->heap(static_cast<int>(rank)) + member.places[rank].*which + before;
        }
        before += static_cast<std::size_t>(element_count(spec.shape)) * dtype_bytes(spec.dtype);
      }
    }
    return nullptr;
  }

  std::vector<std::unique_ptr<transport::HostArena>> own_;
  std::vector<transport::HostArena*> arenas_;  ///< null: in another process
  std::vector<BucketCase> cases_;
  std::vector<RankState> ranks_;
  std::vector<std::vector<Job>> jobs_;  ///< bucket x instance
  bool ok_ = true;
};

}  // namespace ronde::collectives
