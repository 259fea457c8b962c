// BucketLayout: what may be in one bucket, how its data moves and where it lies, on every rank alike. The backend of
// the coordinator's rank says so. Agreement carries it to the backends of all ranks with PREPARE; to agreement it is
// opaque, but for the one property by which the protocol differs.
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
  /// Of Bucket.
  struct Placed {
    std::string layout;
    bool has_done_words = true;
  };
  /// For this bucket, which has no layout yet; none if there is no room for it. `limits`: those in force for what is
  /// agreed just now.
  virtual std::optional<Placed> place(const Bucket& bucket, const ByteLimits& limits) = 0;
  /// No rank uses the bucket any more, of which only id and layout are left. Requires: it was placed.
  virtual void take_back(const Bucket& bucket) = 0;
};

}  // namespace ronde
