// A plan by MPI. Its tensors are brought into memory that nobody else uses, and back when MPI has done: MPI cannot be
// told to leave memory alone, and a caller whose plan was given up, since a rank has died, gets its tensors back at
// once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "backend/mpi/mpi_reduction.h"
#include "backend/mpi/mpi_world.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::backend::mpi {

/// Memory for what MPI reads and writes, used again by the next plan. Grows only.
class Staging {
 public:
  /// Of so many bytes at least; what was there is gone.
  std::byte* take(std::size_t bytes);
  /// MPI may use it for good: it is never freed, and the next take() gets other memory.
  void abandon();

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

/// Of what a rank sends and receives.
struct StagingPair {
  Staging sent, received;
};

/// How many bytes of tensors an all-reduce, a scan or a broadcast brings through MPI at a time, as a plan, which ends
/// before another begins, may: few enough that the copies before and behind find them in a cache, enough for each rank
/// that a ring's messages are long ones. Whole elements; MPI, which counts by int, can count them. `reduction`: null
/// for what is only moved.
std::size_t bytes_of_piece(const MpiReduction* reduction, int ranks);

/// Whether MPI does this plan. The same on every rank. `reduction`: of a plan that reduces, if MPI has it.
bool takes(const Plan& plan, const std::optional<MpiReduction>& reduction, int ranks);

/// The plan, to be launched on every rank in the same order. Requires: takes(). All must outlive it.
std::unique_ptr<Operation> start_plan(MpiWorld& world, const Plan& plan, std::optional<MpiReduction> reduction,
                                      StagingPair& staging);

}  // namespace ronde::backend::mpi
