// Parts: what each rank of a plan has for each other, and where it lies.
//
// part(i, j) is what rank i has for rank j: rows of member 0, then of member 1, ... Of an all-gather all that rank i
// has, the same for every j; of a reduce or gather nothing unless j is the root, of a scatter unless i is.
#pragma once

#include <cstddef>

#include "collectives/gather_list.h"
#include "types/operations.h"
#include "types/plan.h"

namespace ronde::collectives {

/// The bytes of one row of a plan's member: everything but its first dimension.
std::size_t row_bytes(const PlanMember& member);

/// Of an allgather, alltoall, gather, scatter, reduce or reducescatter. The plan must outlive it.
class Parts {
 public:
  Parts(const Plan& plan, int ranks)
      : plan_(plan),
        ranks_(static_cast<std::size_t>(ranks)),
        hands_over_(makes_outputs(plan.kind) && !reduces(plan.kind)) {}

  /// Of part(from, to).
  std::size_t bytes(std::size_t from, std::size_t to) const;
  /// Of the longest part of all.
  std::size_t longest() const;
  /// part(own, peer), where it is read. The lists of part(own, own), and those of an all-gather, also say where it is
  /// written.
  GatherList outgoing(std::size_t own, std::size_t peer) const;
  /// part(peer, own), where it is written: the list's source and its destination are the same. In an operation that
  /// reduces, the parts of all peers are written to one place.
  GatherList incoming(std::size_t own, std::size_t peer) const;

 private:
  std::size_t rows(std::size_t m, std::size_t from, std::size_t to) const;
  std::size_t row(const PlanMember& member) const;
  std::byte* written_at(std::size_t m, std::size_t own, std::size_t peer) const;

  const Plan& plan_;
  const std::size_t ranks_;
  const bool hands_over_;  ///< what comes from different ranks lies side by side, and is not reduced to one
};

}  // namespace ronde::collectives
