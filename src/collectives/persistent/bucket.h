// HostBucket: the data plane of one bucket in replay (types/bucket.h says what a bucket is) on a host. A class per
// kind; all speak through words in shared memory, one writer each, and send no message:
//
//     published   (epoch, instance): this rank's data of the instance is in place, and its memory may be read, and in
//                 the direct kind written, once *all* ranks have published it
//     done        (epoch, instance): direct: this rank has reduced its slice, stored it to everyone and touches the
//                 instance no more. Staged: its slice is in its result slot and it reads no input slot any more
//
// A word of another epoch reads as instance 0. Instances count from 1 in each epoch; instance() is how many this rank
// has completed. A rank publishes instance k + 1 only when it has completed k, so a peer is at most one instance ahead.
//
// What is reused, and why that is safe. "r has completed k" needs everyone's word of k.
//  - inline and one-shot: complete on all `published`; no done word. Line and slot alternate by the parity of the
//    instance. r writes those of k + 2 after it has completed k + 1, which everyone published after having completed,
//    hence read, k.
//  - two-phase: the slots alternate too. One input and one result slot would do, since everyone stores `done` of k
//    after its last look at an input slot and publishes k + 1 after its last look at a result slot. But to rewrite at
//    once what the peer has just read was measured at twice the time at 64 KiB.
//  - direct: r writes its tensors for k + 1 after it has completed k, that is, after everyone's last store to them.
//  - ordered: a channel of its own (channel.h), whose operations all ranks run in the one order that the leader gives.
//
// Unnamed calls. A bucket in which they take part says beside `published` which calls these are, in one word `calls`.
// Whoever sees all `published` compares the words before it reads any data; if they differ the instance is void: it is
// over at once, on every rank alike, and nothing was touched. The word alternates by parity as the slots do, and for
// the same reason.
//
// In a break nothing changes: what all have published is finished by all, of what is cancelled nothing was ever read.
//
// How it is used: types/persistent_collective.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/gather_list.h"
#include "collectives/persistent/bucket_layout.h"
#include "collectives/slices.h"
#include "collectives/tuning/table.h"
#include "reduce/reduce.h"
#include "transport/arena/arena.h"
#include "types/bucket.h"
#include "types/instance_word.h"
#include "types/memory_place.h"
#include "types/persistent_collective.h"

namespace ronde::collectives {

class OrderedLane;

/// A word in shared memory: 24 bits of epoch, 40 bits of instance.
class BucketWord {
 public:
  using Codec = InstanceWord<std::uint64_t, 40>;

  void store(std::uint64_t word) { word_.store(word, std::memory_order_release); }
  /// True if the word is of the same epoch as `wanted` and of its instance or a later one.
  bool has_reached(std::uint64_t wanted) const {
    return Codec::has_reached(word_.load(std::memory_order_acquire), wanted);
  }
  /// The instance, 0 if the word is of another epoch.
  std::uint64_t instance(std::uint32_t epoch) const {
    return Codec::instance(word_.load(std::memory_order_acquire), epoch);
  }

 private:
  std::atomic<std::uint64_t> word_{0};
};

class HostBucket : public PersistentCollective {
 public:
  /// Clears this rank's own words: the memory may have held something else. So every rank must have made its bucket
  /// before any publishes.
  HostBucket(transport::HostArena& arena, const Bucket& bucket);

  const Bucket& description() const final { return bucket_; }
  void enter(std::uint32_t epoch) final;
  void bind(std::size_t member, std::span<const RequestTensor> tensors) override;
  // copy_in(): copies the member's input to where peers will read it; nothing for ordered and direct, which read it in
  // place: its memory must not change until the instance is completed or cancelled. In the other kinds too, in its own
  // slice.
  void publish(std::uint64_t calls = 0) final;
  void cancel() final;
  bool was_void() const final { return was_void_; }

  std::uint32_t epoch() const { return epoch_; }
  std::uint64_t instance() const { return instance_; }
  bool is_published() const { return is_published_; }

 protected:
  /// The line of a bucket that is not inline.
  struct alignas(transport::kLineBytes) Line {
    BucketWord published;
    BucketWord done;
    std::atomic<std::uint64_t> calls[2] = {};  ///< by parity; stored before `published`
  };

  Line& line(int rank) const { return *lines_[static_cast<std::size_t>(rank)]; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Requires: distance < size(). A division would take as long as the look at a peer's word.
  int after(int distance) const {
    const int peer = rank_ + distance;
    return peer < size_ ? peer : peer - size_;
  }
  std::uint64_t wanted() const { return wanted_; }
  GatherList& list() { return list_; }
  std::size_t payload() const { return list_.bytes(); }
  transport::HostArena& arena() const { return arena_; }
  const HostLayout& layout() const { return layout_; }
  const reduce::Reduction& reduction() const { return reduction_; }
  bool has_unnamed() const { return has_unnamed_; }
  /// The positions of a member in the list.
  Range positions(std::size_t member) const { return positions_[member]; }

  virtual void store_published(std::uint64_t word) { line(rank_).published.store(word); }
  /// The word by which a rank has published, or will, the instance under way.
  virtual const BucketWord& published_word(int rank) const { return line(rank).published; }
  /// Where a rank says which calls are in the instance under way.
  virtual std::atomic<std::uint64_t>& calls_of(int rank) const { return line(rank).calls[(instance_ + 1) % 2]; }
  /// Whether the ranks have published different calls. Requires: all have published.
  bool is_void() const;
  /// Ends the instance under way, of which nothing comes.
  Progress complete_void();
  /// The kind's own state of an instance under way, back to none.
  virtual void reset() {}

  /// Whether every peer's word has been seen to reach what this rank waits for. Each peer is looked at until seen, then
  /// no more until start_looking().
  template <typename WordOf>
  bool all_have_reached(WordOf&& word_of) {
    while (looking_at_ < size_) {
      if (!word_of(after(looking_at_)).has_reached(wanted_)) {
        return false;
      }
      ++looking_at_;
    }
    return true;
  }
  void start_looking() { looking_at_ = 1; }
  bool all_published() {
    return all_have_reached([this](int peer) -> const BucketWord& { return line(peer).published; });
  }
  bool all_done() {
    return all_have_reached([this](int peer) -> const BucketWord& { return line(peer).done; });
  }
  void set_done();
  /// Ends an instance.
  Progress complete();
  template <typename WordOf>
  std::vector<int> lacking(WordOf&& word_of) const {
    std::vector<int> ranks;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_ && !word_of(peer).has_reached(wanted_)) {
        ranks.push_back(peer);
      }
    }
    return ranks;
  }
  std::vector<int> not_published() const {
    return lacking([this](int peer) -> const BucketWord& { return line(peer).published; });
  }
  std::vector<int> not_done() const {
    return lacking([this](int peer) -> const BucketWord& { return line(peer).done; });
  }

 private:
  transport::HostArena& arena_;
  const transport::HostBells& bells_;
  const Bucket bucket_;
  const HostLayout layout_;
  const int rank_;
  const int size_;
  const reduce::Reduction reduction_;
  const bool has_unnamed_;
  std::vector<Line*> lines_;
  GatherList list_;
  std::vector<Range> positions_;
  std::vector<std::size_t> first_segment_;
  std::uint32_t epoch_ = 0;
  std::uint64_t instance_ = 0;
  std::uint64_t wanted_ = 0;  ///< the word of the instance under way
  int looking_at_ = 1;
  bool is_published_ = false;
  bool was_void_ = false;
};

/// `arena` and `lane` must outlive the bucket; `lane` may be null unless the kind is ordered. `thresholds` are agreed:
/// the same on every rank. Requires: read_layout() understands the bucket's layout; reduce::supports() the members'
/// type and operation; the own memory at the bucket's offsets has been committed; of `direct`, every tensor at a
/// multiple of its element's size.
std::unique_ptr<HostBucket> make_bucket(transport::HostArena& arena, const Bucket& bucket, const Thresholds& thresholds,
                                        OrderedLane* lane);

/// The reduction that the members of a bucket have in common.
reduce::Reduction reduction_of(const Bucket& bucket);

}  // namespace ronde::collectives
