#include "types/op.h"

namespace ronde {

std::string_view op_name(OpKind kind) {
  switch (kind) {
    case OpKind::allreduce: return "allreduce";
    case OpKind::allgather: return "allgather";
    case OpKind::broadcast: return "broadcast";
    case OpKind::alltoall: return "alltoall";
    case OpKind::reducescatter: return "reducescatter";
    case OpKind::reduce: return "reduce";
    case OpKind::gather: return "gather";
    case OpKind::scatter: return "scatter";
    case OpKind::send: return "send";
    case OpKind::recv: return "recv";
    case OpKind::barrier: return "barrier";
    case OpKind::join: return "join";
  }
  return "unknown";
}

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
