#include "backend/host_memory.h"

#include <string>

#include "reduce/adasum.h"
#include "reduce/reduce.h"
#include "types/operations.h"

namespace ronde::backend {

namespace {

Status not_built(std::string_view backend, std::string_view what) {
  return Status::error(Code::not_implemented,
                       "the " + std::string(backend) + " backend has no " + std::string(what) + " yet");
}

}  // namespace

Status host_memory_supports(const Plan& plan, std::string_view backend, bool has_algorithm) {
  for (const PlanMember& member : plan.members) {
    if (member.input.device.type != DeviceType::host || member.output.device.type != DeviceType::host) {
      return not_built(backend, "way to device memory").with_tensor(member.name);
    }
  }
  if (!has_algorithm) {
    return not_built(backend, op_name(plan.kind));
  }
  const OperationTraits& operation = traits(plan.kind);
  if (operation.reduces) {
    return plan.reduce_op == ReduceOp::adasum && operation.has_adasum
               ? reduce::adasum_supports(plan.dtype)
               : reduce::supports({plan.dtype, plan.reduce_op, plan.prescale, plan.postscale});
  }
  const bool is_movable = !operation.has_tensors || dtype_bytes(plan.dtype) > 0;
  return is_movable ? Status() : not_built(backend, std::string(dtype_name(plan.dtype)) + " type");
}

}  // namespace ronde::backend
