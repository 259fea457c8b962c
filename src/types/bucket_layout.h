// BucketLayout: what may be in one bucket, how its data moves and where it lies, on every rank alike. The backend of
// the coordinator's rank says so; to agreement, which carries it to the backends of all ranks with PREPARE, it is
// opaque.
#pragma once

#include <optional>
#include <string>

#include "types/bucket.h"

namespace ronde {

class BucketLayout {
 public:
  virtual ~BucketLayout() = default;
  /// Tensors that are reduced alike may share a bucket if they are of one class. `places`: as BucketMember has them.
  virtual int fusion_class(const MemoryPlaces& places) const = 0;
  /// For Bucket::kind of this one, which has none yet. `limits`: those in force for what is agreed just now.
  virtual BucketKind kind_of(const Bucket& bucket, const ByteLimits& limits) const = 0;
  /// For Bucket::layout of this one, which has none yet; none if there is no room for it.
  virtual std::optional<std::string> place(const Bucket& bucket) = 0;
  /// No rank uses the bucket any more, of which only id, kind and layout are left. Requires: it was placed.
  virtual void take_back(const Bucket& bucket) = 0;
};

}  // namespace ronde
