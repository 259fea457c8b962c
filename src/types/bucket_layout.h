// BucketLayout: where buckets lie, on every rank alike. The backend of the coordinator's rank gives it out; what it
// says is opaque to agreement, which carries it to the backends of all ranks with PREPARE.
#pragma once

#include <optional>
#include <string>

#include "types/bucket.h"

namespace ronde {

class BucketLayout {
 public:
  virtual ~BucketLayout() = default;
  /// For Bucket::layout of this one, which has none yet; none if there is no room for it.
  virtual std::optional<std::string> place(const Bucket& bucket) = 0;
  /// No rank uses the bucket any more, of which only id, kind and layout are left. Requires: it was placed.
  virtual void take_back(const Bucket& bucket) = 0;
};

}  // namespace ronde
