// MessageBucket: a bucket in replay whose bytes travel as messages. An instance is one run of an all-reduce's schedule
// (collectives/schedule), in whose first stage every rank sends each other a message: that one says that the sender has
// published the instance, and which unnamed calls it holds. In schedules by hosts or in turns a rank hears so of most
// others through the ranks between them; which is the last instance that it has published it tells all of them only
// when it is frozen.
//
// Tensors are read where they are when they are sent, so copy_in() has nothing to do. Outputs are written only by what
// has come from ranks that have heard from all, so of an instance that not all have published nothing is written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/schedule/allreduce_way.h"
#include "collectives/schedule/message_limits.h"
#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule_run.h"
#include "types/persistent_collective.h"

namespace ronde::backend {

/// publish(): any thread, under the gate; all else under the mailbox's lock.
class MessageBucket : public PersistentCollective {
 public:
  /// Requires: reduce::supports() its type and reduction, and its tensors are private.
  MessageBucket(transport::Mailbox& mailbox, const collectives::RankLayout& layout, const Bucket& bucket,
                const collectives::messages::MessageLimits& limits);
  ~MessageBucket() override { mailbox_.forget(collective()); }

  const Bucket& description() const override { return bucket_; }
  void enter(std::uint32_t epoch) override;
  void bind(std::size_t member, std::span<const RequestTensor> tensors) override;
  void copy_in(std::size_t) override {}
  void publish(std::uint64_t calls) override;
  Progress advance() override;
  void cancel() override;
  bool was_void() const override { return was_void_; }
  /// Peers can tell what this rank has published.
  void announce();
  /// As far as messages have been taken in (Mailbox::receive()).
  std::uint64_t published_by(int rank) const override;
  std::vector<int> waiting_for() const override;

 private:
  /// Of plans it is 0.
  std::uint32_t collective() const { return bucket_.id + 1; }
  MessageBucket(transport::Mailbox& mailbox, const Bucket& bucket, collectives::messages::AllreduceWay way);
  std::uint64_t word(std::uint64_t instance) const;
  void tell_published();
  bool is_begun() const { return begun_ > completed_; }
  /// False if nothing is published.
  bool begin();

  const Bucket bucket_;
  transport::Mailbox& mailbox_;
  std::vector<std::size_t> first_segments_;  ///< by member
  const bool hears_through_others_;
  const std::unique_ptr<collectives::ScheduleRun> run_;
  std::uint32_t epoch_ = 0;
  bool is_in_force_ = false;  ///< entered, and not cancelled since
  std::uint64_t calls_ = 0;
  std::atomic<std::uint64_t> published_{0};  ///< instances that this rank has
  std::uint64_t begun_ = 0;
  std::uint64_t completed_ = 0;
  bool was_void_ = false;
};

}  // namespace ronde::backend
