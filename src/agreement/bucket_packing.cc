#include "agreement/bucket_packing.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace ronde::agreement {

namespace {

/// Names with equal keys may share a bucket: reduced alike, and of one class to their backend.
using FusionKey = std::tuple<ReduceOp, DType, double, double, int>;

FusionKey fusion_key(const Descriptor& descriptor, int fusion_class) {
  return {descriptor.reduce_op, descriptor.tensors.front().dtype, descriptor.prescale, descriptor.postscale,
          fusion_class};
}

/// A bucket being filled.
struct Draft {
  std::vector<NameHistory*> names;
  std::uint64_t bytes = 0;
  NameHistory::Rounds common;  ///< what the intervals of all have in common
};

/// False, and nothing is changed, if the name does not go into this bucket.
bool add(Draft& draft, NameHistory& name, std::uint64_t threshold, bool are_together) {
  NameHistory::Rounds common = draft.common;
  for (std::size_t i = 0; i < common.size(); ++i) {
    common[i].asked = std::max(common[i].asked, name.rounds[i].asked);
    common[i].answered = std::min(common[i].answered, name.rounds[i].answered);
    if (!are_together && common[i].asked >= common[i].answered) {
      return false;
    }
  }
  const std::uint64_t bytes = draft.bytes + payload_bytes(name.descriptor);
  if (bytes > threshold) {
    return false;
  }
  draft.common = common;
  draft.bytes = bytes;
  draft.names.push_back(&name);
  return true;
}

}  // namespace

bool is_plannable(const Descriptor& descriptor) {
  return descriptor.kind == OpKind::allreduce && descriptor.reduce_op != ReduceOp::adasum &&
         !descriptor.tensors.empty() &&
         std::all_of(descriptor.tensors.begin(), descriptor.tensors.end(),
                     [&](const Descriptor::Spec& spec) { return spec.dtype == descriptor.tensors.front().dtype; });
}

bool BucketPacking::is_small(const NameHistory& history) const {
  return !history.alone && threshold_ > 0 && payload_bytes(history.descriptor) <= small_;
}

std::vector<std::vector<NameHistory*>> BucketPacking::pack(std::vector<NameHistory*> names, bool are_together) const {
  std::sort(names.begin(), names.end(), [](const NameHistory* a, const NameHistory* b) { return a->order < b->order; });
  std::vector<std::vector<NameHistory*>> packed;
  std::map<FusionKey, std::vector<Draft>> drafts;
  for (NameHistory* name : names) {
    if (!is_small(*name)) {
      packed.push_back({name});
      continue;
    }
    const int fusion_class = layout_ == nullptr ? 0 : layout_->fusion_class(name->places);
    std::vector<Draft>& open = drafts[fusion_key(name->descriptor, fusion_class)];
    const auto joins = [&](Draft& draft) { return add(draft, *name, threshold_, are_together); };
    if (std::none_of(open.begin(), open.end(), joins)) {
      open.push_back({{name}, payload_bytes(name->descriptor), name->rounds});
    }
  }
  for (auto& [key, open] : drafts) {
    for (Draft& draft : open) {
      packed.push_back(std::move(draft.names));
    }
  }
  return packed;
}

}  // namespace ronde::agreement
