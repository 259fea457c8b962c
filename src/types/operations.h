// What the engine must know of an operation: one row each. Who adds an operation adds its row here, and its algorithm
// to the backends that have it.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#include "types/op.h"

namespace ronde {

/// Whether one rank, Request::root, has a part of its own, and which.
enum class Root {
  none,
  from,  ///< its tensor counts
  to,    ///< it gets the result
  peer,  ///< two ranks of the group do it by themselves; the root is the other one
};

/// Rows are slices along a tensor's first extent. Says how many rows the output of a rank has. Where that is not what
/// its input has, agreement tells each rank the number and the ticket owns the output's memory.
enum class Rows {
  as_input,  ///< as many as the input; shapes are equal on all ranks
  all,       ///< those of all ranks together; each rank's input has its own number
  a_part,    ///< a part of the input's, which are as many on all ranks
  of_pairs,  ///< all that other ranks have for this one: every rank has its own number of rows for each rank
};

/// What a rank that has joined contributes.
enum class Joined {
  refused,  ///< nothing could: it cannot be done
  neutral,  ///< values that change nothing
  itself,   ///< there are no values
};

struct OperationTraits {
  std::string_view name = "unknown";
  Root root = Root::none;
  Rows rows = Rows::as_input;
  Joined joined = Joined::refused;
  bool is_known = true;
  bool has_tensors = true;
  bool reduces = false;       ///< a reduction and scales count
  bool has_average = false;   ///< the average is one of its reductions
  bool has_adasum = false;    ///< Adasum is one of its reductions
  bool takes_splits = false;  ///< Request::splits; with a root on the root only
  bool fuses = false;         ///< small tensors of several requests share a plan
};

/// By number.
inline constexpr OperationTraits kOperations[] = {
    {.name = "allreduce",
     .joined = Joined::neutral,
     .reduces = true,
     .has_average = true,
     .has_adasum = true,
     .fuses = true},
    {.name = "allgather", .rows = Rows::all},
    {.name = "broadcast", .root = Root::from, .fuses = true},
    {.name = "alltoall", .rows = Rows::of_pairs, .takes_splits = true},
    {.name = "reducescatter", .rows = Rows::a_part, .reduces = true, .has_average = true},
    {.name = "reduce", .root = Root::to, .reduces = true, .has_average = true},
    {.name = "gather", .root = Root::to, .rows = Rows::of_pairs},
    {.name = "scatter", .root = Root::from, .rows = Rows::of_pairs, .takes_splits = true},
    {.name = "send", .root = Root::peer},
    {.name = "recv", .root = Root::peer},
    {.name = "barrier", .joined = Joined::itself, .has_tensors = false},
    {.name = "join", .has_tensors = false},
    {.name = "scan", .reduces = true},
    {.name = "exscan", .reduces = true},
};
static_assert(std::size(kOperations) == static_cast<std::size_t>(OpKind::exscan) + 1);

inline constexpr OperationTraits kUnknownOperation = {.is_known = false};

/// Of any number; one that names no operation has is_known false.
inline const OperationTraits& traits(OpKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kOperations) ? kOperations[index] : kUnknownOperation;
}

/// "allreduce", ...; "unknown" for a number that names no operation.
inline std::string_view op_name(OpKind kind) { return traits(kind).name; }
/// Whether two ranks of the group do it by themselves: send, recv.
inline bool is_pairwise(OpKind kind) { return traits(kind).root == Root::peer; }
inline bool has_root(OpKind kind) { return traits(kind).root == Root::from || traits(kind).root == Root::to; }
inline bool reduces(OpKind kind) { return traits(kind).reduces; }
/// Whether the outputs' sizes are told by agreement, or differ from the inputs', so that the ticket owns their memory.
inline bool makes_outputs(OpKind kind) { return traits(kind).rows != Rows::as_input; }
/// Of these Plan::rows says for each pair of ranks how many rows go from the one to the other.
inline bool has_rows_for_pairs(OpKind kind) { return traits(kind).rows == Rows::of_pairs; }

}  // namespace ronde
