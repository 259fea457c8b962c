#include "types/op.h"

namespace ronde {

std::string_view reduce_op_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::average: return "average";
    case ReduceOp::sum: return "sum";
    case ReduceOp::adasum: return "adasum";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: return "product";
    case ReduceOp::bit_and: return "bit_and";
    case ReduceOp::bit_or: return "bit_or";
    case ReduceOp::bit_xor: return "bit_xor";
  }
  return "unknown";
}

}  // namespace ronde
