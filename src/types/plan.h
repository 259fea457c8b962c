// Plan: one backend call that all ranks of a group agreed on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "types/memory_place.h"
#include "types/op.h"
#include "types/tensor.h"

namespace ronde {

/// One tensor of a plan. `output` may alias `input` (in place). Neither is owned.
struct PlanMember {
  std::string name;
  Tensor input;
  Tensor output;
  /// Where the tensor lies in memory that all ranks reach, if it does so on all, result included; else empty. An
  /// all-reduce whose members all have places is done in the tensors themselves.
  MemoryPlaces places = {};
};

/// All members of a plan have the same dtype. Executed by every rank of the group with its own pointers, in the same
/// order on every rank.
struct Plan {
  OpKind kind = OpKind::allreduce;
  ReduceOp reduce_op = ReduceOp::sum;
  DType dtype = DType::float32;
  double prescale = 1.0;
  double postscale = 1.0;
  int root = 0;  ///< index in the group (not the global rank)
  std::vector<PlanMember> members;
  /// For each member, extents of dimension 0. allgather: on each rank of the group; reducescatter: of what each gets;
  /// alltoall, gather, scatter: of what rank i has for rank j, at i * ranks + j. Else empty.
  std::vector<std::vector<std::int64_t>> rows;

  /// All of it lies in memory that all ranks reach.
  bool is_shared() const {
    return !members.empty() &&
           std::none_of(members.begin(), members.end(), [](const PlanMember& member) { return member.places.empty(); });
  }
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const PlanMember& member : members) {
      total += member.input.bytes();
    }
    return total;
  }
};

}  // namespace ronde
