#include "backend/native/native.h"

#include "collectives/host/channel.h"
#include "collectives/host/select.h"
#include "reduce/adasum.h"
#include "reduce/reduce.h"

namespace ronde::backend {

namespace {

Status not_built(const std::string& what) {
  return Status::error(Code::not_implemented, "the native backend has no " + what + " yet");
}

class NativeBackend final : public Backend {
 public:
  NativeBackend(transport::HostArena& arena, const collectives::Table& table)
      : channel_(arena, table.of(arena.size())) {}

  std::string_view name() const override { return "native"; }

  Status supports(const Plan& plan) const override {
    for (const PlanMember& member : plan.members) {
      if (member.input.device.type != DeviceType::host || member.output.device.type != DeviceType::host) {
        return not_built("way to device memory").with_tensor(member.name);
      }
    }
    switch (plan.kind) {
      case OpKind::allreduce:
        if (plan.reduce_op == ReduceOp::adasum) {
          return reduce::adasum_supports(plan.dtype);
        }
        [[fallthrough]];
      case OpKind::reduce:
      case OpKind::reducescatter: return reduce::supports({plan.dtype, plan.reduce_op, plan.prescale, plan.postscale});
      case OpKind::broadcast:
      case OpKind::allgather:
      case OpKind::alltoall:
      case OpKind::gather:
      case OpKind::scatter:
        return dtype_bytes(plan.dtype) > 0 ? Status() : not_built(std::string(dtype_name(plan.dtype)) + " type");
      case OpKind::barrier: return {};
      default: return not_built(std::string(op_name(plan.kind)));
    }
  }

  std::unique_ptr<Operation> launch(const Plan& plan) override { return collectives::start(channel_, plan); }
  void set_thresholds(const Thresholds& thresholds) override { channel_.set_thresholds(thresholds); }

 private:
  collectives::HostChannel channel_;
};

}  // namespace

std::unique_ptr<Backend> make_native_backend(transport::HostArena& arena, const collectives::Table& table) {
  return std::make_unique<NativeBackend>(arena, table);
}

}  // namespace ronde::backend
