// PersistentCollective: a bucket in replay, as its backend carries it out on this rank: the same reduction, instance
// after instance, without a message of agreement. An epoch is the time from one INSTALL of the log to the next break;
// instances count from 1 in each.
//
// Use, per instance (the engine's part):
//     bind      where the member's tensors are; may be kept from the last instance
//     copy_in   any thread, different members at once
//     publish   when every member is in, under the gate, at most once
//     advance   under the progress lock, until `done`; never blocks
// Of an ordered backend the first call of advance() for an instance launches it: only when every rank has published the
// instance, and on every rank between the same two launches. More calls follow in any order.
// What is stored by one of these must be visible to the next: the gate and the progress lock see to that.
// After a death: advance() is called no more; between two calls nothing is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "types/bucket.h"
#include "types/memory_place.h"
#include "types/operation.h"
#include "types/request.h"

namespace ronde {

class PersistentCollective {
 public:
  PersistentCollective() = default;
  virtual ~PersistentCollective() = default;
  PersistentCollective(const PersistentCollective&) = delete;
  PersistentCollective& operator=(const PersistentCollective&) = delete;

  virtual const Bucket& description() const = 0;
  /// A new epoch: no instance is published or completed. Requires: none is under way. epoch < 2^24.
  virtual void enter(std::uint32_t epoch) = 0;
  /// Where the tensors of a member are from now on, in the order of its descriptor; their sizes are the descriptor's.
  virtual void bind(std::size_t member, std::span<const RequestTensor> tensors) = 0;
  /// Copies the member's inputs to where peers read them, or leaves them where they are. The caller does not change
  /// them before the instance is complete or cancelled.
  virtual void copy_in(std::size_t member) = 0;
  /// Says that all members of the next instance are in, and wakes who sleeps if it is the last rank to do so.
  /// `calls`: stands for the unnamed calls in it, in the order of the members; 0 if there are none.
  virtual void publish(std::uint64_t calls) = 0;
  /// Does what can be done. `again`: every rank has published the instance, and it will be finished. `done`: it is
  /// complete and the results are in the outputs, unless was_void(). Moves about 1 MB at most. Requires: an instance is
  /// published.
  virtual Progress advance() = 0;
  /// The epoch is over. What is published will not be finished: not all have published it (of an ordered backend: none
  /// has launched it), and none will. Outputs are untouched.
  virtual void cancel() = 0;
  /// The last instance that ended held other calls on other ranks; nothing came of it.
  virtual bool was_void() const = 0;
  /// The last instance of this epoch that a rank has published; 0 if none. Final once the rank is frozen. Not asked of
  /// an ordered backend.
  virtual std::uint64_t published_by(int rank) const = 0;
  /// Ranks that the published instance waits for; for reports, may be empty.
  virtual std::vector<int> waiting_for() const = 0;
  /// What of this rank's memory peers may store into as long as the published instance is neither completed nor
  /// cancelled.
  virtual std::vector<MemorySpan> exposed() const { return {}; }
};

}  // namespace ronde
