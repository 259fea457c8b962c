// What can be asked for: the kinds of operation (operations.h says what each is) and the reductions. The numbers are
// those of <ronde/ronde.h>.
#pragma once

#include <cstdint>
#include <string_view>

namespace ronde {

enum class OpKind : std::int32_t {
  allreduce = 0,
  allgather = 1,
  broadcast = 2,
  alltoall = 3,
  reducescatter = 4,
  reduce = 5,
  gather = 6,
  scatter = 7,
  send = 8,
  recv = 9,
  barrier = 10,
  join = 11,
  scan = 12,
  exscan = 13,
};

/// The first six are Horovod's numbers.
enum class ReduceOp : std::int32_t {
  average = 0,
  sum = 1,
  adasum = 2,
  min = 3,
  max = 4,
  product = 5,
  bit_and = 6,
  bit_or = 7,
  bit_xor = 8,
};

/// "average", ...; "unknown" for a number that names no reduction.
std::string_view reduce_op_name(ReduceOp op);

}  // namespace ronde
