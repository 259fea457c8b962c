// BucketPacking: which names share a bucket. Pure: it looks at nothing but the histories that it is given.
//
// Together. Two names may be fused if a program does not wait for one before it requests the other. A request says how
// many log entries its rank had read (position). So if `asked` is the largest position of a name's requests and
// `answered` that of its answer, then two names were pending together on every rank if and only if asked(a) <
// answered(b) and asked(b) < answered(a): their intervals overlap. Intervals that overlap in pairs have a point in
// common, so a set is together if max(asked) < min(answered). No order of submission is assumed, so it may differ per
// rank and per step.
#pragma once

#include <cstdint>
#include <vector>

#include "agreement/name_histories.h"
#include "control/messages.h"
#include "types/bucket_layout.h"
#include "types/request.h"

namespace ronde::agreement {

/// What replay can do: any reduction of tensors of one type. Everything else stays in negotiation.
bool is_plannable(const Descriptor& descriptor);

class BucketPacking {
 public:
  /// `layout` must outlive this; null: all tensors are of one class.
  BucketPacking(const control::SettingsEntry& settings, const BucketLayout* layout)
      : threshold_(settings.fusion_threshold), small_(settings.fusion_small), layout_(layout) {}

  /// Whether the name may share a bucket: only then it matters what it comes together with.
  bool is_small(const NameHistory& history) const;
  /// The names of each bucket: large names alone; small ones in the order of their last answers into buckets of what is
  /// reduced alike and was together in each of the last rounds, up to the fusion threshold. `are_together`: they
  /// belong together whatever their rounds say. Requires: all are plannable.
  std::vector<std::vector<NameHistory*>> pack(std::vector<NameHistory*> names, bool are_together) const;

 private:
  std::uint64_t threshold_;  ///< bytes that a bucket of several names has at most; 0: nothing is fused
  std::uint64_t small_;      ///< bytes that a name has at most that may share a bucket
  const BucketLayout* layout_;
};

}  // namespace ronde::agreement
