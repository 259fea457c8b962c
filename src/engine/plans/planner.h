// Planner: what was agreed in one log entry becomes plans. A pure function of the entry, the descriptors and the
// coordinator's settings, so every rank makes the same plans without a word. It decides which tensors are fused in
// negotiation; for replay agreement/bucket_packing.h does.
#pragma once

#include <cstddef>
#include <vector>

#include "control/messages.h"
#include "types/bucket.h"
#include "types/plan.h"
#include "types/request.h"

namespace ronde::engine {

/// One agreed request: this rank's side of it, and the rows of all members if it is an allgather.
struct Agreed {
  const Request* request = nullptr;
  std::vector<std::vector<std::int64_t>> rows;
  MemoryPlaces places = {};  ///< of its one tensor
};

struct PlannedWork {
  Plan plan;
  std::vector<std::size_t> owners;  ///< for each plan member the index of its request in the agreed list
};

/// In the order in which the first tensor of each was agreed. Tensors are fused if they are reduced (or broadcast)
/// alike and each has at most settings.fusion_small bytes, up to settings.fusion_threshold bytes a plan: packing
/// large tensors together only costs memory traffic (docs/algorithms.md). A grouped request may span several plans.
std::vector<PlannedWork> make_plans(const std::vector<Agreed>& agreed, const control::SettingsEntry& settings,
                                    const Group& group);

}  // namespace ronde::engine
