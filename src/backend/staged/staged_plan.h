// A plan by somebody else's library. Its tensors are brought into memory that nobody else uses, and back when the
// library has done: it cannot be told to leave memory alone, and a caller whose plan was given up, since a rank has
// died, gets its tensors back at once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "backend/staged/collective_library.h"
#include "backend/staged/staged_reduction.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::backend {

/// Memory for what the library reads and writes, used again by the next plan. Grows only.
class Staging {
 public:
  /// Of so many bytes at least; what was there is gone.
  std::byte* take(std::size_t bytes);
  /// The library may use it for good: it is never freed, and the next take() gets other memory.
  void abandon();

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

/// Of what a rank sends and receives.
struct StagingPair {
  Staging sent, received;
};

/// How many bytes of tensors an all-reduce, a scan or a broadcast brings through the library at a time, as a plan,
/// which ends before another begins, may: few enough that the copies before and behind find them in a cache, enough for
/// each rank that a ring's messages are long ones. Whole elements, which an int can count. `reduction`: null for what
/// is only moved.
std::size_t bytes_of_piece(const StagedReduction* reduction, int ranks);

/// Whether the library does this plan. The same on every rank. `reduction`: of a plan that reduces, if the library has
/// it.
bool takes(const Plan& plan, const std::optional<StagedReduction>& reduction, const CollectiveLibrary& library);

/// The plan, to be launched on every rank in the same order. Requires: takes(). All must outlive it.
std::unique_ptr<Operation> start_plan(CollectiveLibrary& library, const Plan& plan,
                                      std::optional<StagedReduction> reduction, StagingPair& staging);

}  // namespace ronde::backend
