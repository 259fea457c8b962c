#include "backend/messages/message_bucket.h"

#include <utility>

#include "types/instance_word.h"

namespace ronde::backend {

namespace {

using collectives::GatherList;
using collectives::messages::MessageLimits;
using Codec = InstanceWord<std::uint64_t, 40>;

/// In place of a stage: of the message that tells how many instances a rank has published.
constexpr std::uint32_t kPublished = ~std::uint32_t{0};
/// A rank that has completed an instance may have published the next but one of those that others have.
constexpr std::uint64_t kMostAhead = 2;

/// A segment for each tensor that has elements; bound later.
GatherList list_of(const Bucket& bucket, std::vector<std::size_t>* first_segments) {
  GatherList list;
  for (const BucketMember& member : bucket.members) {
    if (first_segments != nullptr) {
      first_segments->push_back(list.segment_count());
    }
    for (const Descriptor::Spec& spec : member.descriptor.tensors) {
      list.append(nullptr, nullptr, static_cast<std::size_t>(element_count(spec.shape)) * dtype_bytes(spec.dtype));
    }
  }
  return list;
}

reduce::Reduction reduction_of(const Bucket& bucket) {
  const Descriptor& first = bucket.members.front().descriptor;
  return {first.tensors.front().dtype, first.reduce_op, first.prescale, first.postscale};
}

}  // namespace

MessageBucket::MessageBucket(transport::Mailbox& mailbox, const collectives::RankLayout& layout, const Bucket& bucket,
                             const MessageLimits& limits)
    : MessageBucket(mailbox, bucket,
                    collectives::messages::allreduce_way(mailbox.rank(), layout, limits, payload_bytes(bucket),
                                                         reduction_of(bucket))) {}

MessageBucket::MessageBucket(transport::Mailbox& mailbox, const Bucket& bucket, collectives::messages::AllreduceWay way)
    : bucket_(bucket),
      mailbox_(mailbox),
      hears_through_others_(way.hears_through_others),
      run_(std::make_unique<collectives::ScheduleRun>(
          mailbox, std::move(way.schedule),
          std::vector<GatherList>{list_of(bucket, &first_segments_), list_of(bucket, nullptr)}, way.combinations)) {}

std::uint64_t MessageBucket::word(std::uint64_t instance) const { return Codec::encode(epoch_, instance); }

void MessageBucket::enter(std::uint32_t epoch) {
  epoch_ = epoch;
  is_in_force_ = true;
  published_.store(0, std::memory_order_relaxed);
  begun_ = completed_ = 0;
  mailbox_.forget_before(collective(), word(1));
}

void MessageBucket::bind(std::size_t member, std::span<const RequestTensor> tensors) {
  std::size_t segment = first_segments_[member];
  for (const RequestTensor& tensor : tensors) {
    if (tensor.input.bytes() > 0) {
      run_->list(0).rebind(segment, tensor.input.data, tensor.output.data);
      run_->list(1).rebind(segment, tensor.output.data, tensor.output.data);
      ++segment;
    }
  }
}

void MessageBucket::publish(std::uint64_t calls) {
  calls_ = calls;
  published_.fetch_add(1, std::memory_order_release);
}

bool MessageBucket::begin() {
  if (!is_begun()) {
    if (published_.load(std::memory_order_acquire) == completed_) {
      return false;
    }
    run_->begin_if_alike(collective(), word(++begun_), calls_);
  }
  return true;
}

void MessageBucket::tell_published() {
  for (int rank = 0; rank < mailbox_.size(); ++rank) {
    if (rank != mailbox_.rank()) {
      mailbox_.compose(0);
      mailbox_.send(rank, {collective(), kPublished, word(published_.load(std::memory_order_acquire))});
    }
  }
}

void MessageBucket::announce() {
  if (hears_through_others_) {
    // What is prepared, or was in force, may live through several freezes and would be told twice.
    if (is_in_force_) {
      tell_published();
    }
  } else if (begin()) {
    run_->announce();
  }
}

Progress MessageBucket::advance() {
  if (!begin()) {
    return Progress::idle;
  }
  Progress progress = run_->advance();
  // As long as not all have published the same, `again` would promise too much, and `idle` must mean that nothing can
  // be sent.
  while (progress == Progress::again && !run_->has_heard_all_alike()) {
    progress = run_->advance();
  }
  if (progress == Progress::done) {
    ++completed_;
    was_void_ = run_->was_void();
  }
  return progress;
}

void MessageBucket::cancel() {
  is_in_force_ = false;
  run_->give_up();
  mailbox_.forget_before(collective(), word(published_.load(std::memory_order_relaxed) + 1));
  published_.store(completed_, std::memory_order_relaxed);
  begun_ = completed_;
}

std::uint64_t MessageBucket::published_by(int rank) const {
  if (rank == mailbox_.rank()) {
    return published_.load(std::memory_order_relaxed);
  }
  if (hears_through_others_) {
    for (std::uint64_t instance = completed_ + kMostAhead; instance > completed_; --instance) {
      if (mailbox_.has(rank, {collective(), kPublished, word(instance)})) {
        return instance;
      }
    }
    return completed_ + (is_begun() && run_->has_heard_from_all() ? 1 : 0);
  }
  // One that has completed an instance, which needs this rank, may have published the next.
  std::uint64_t published = completed_;
  while (mailbox_.has(rank, {collective(), 0, word(published + 1)}) ||
         (is_begun() && published + 1 == begun_ && run_->has_first_of(rank))) {
    ++published;
  }
  return published;
}

std::vector<int> MessageBucket::waiting_for() const { return is_begun() ? run_->waiting_for() : std::vector<int>{}; }

}  // namespace ronde::backend
