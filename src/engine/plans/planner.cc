#include "engine/plans/planner.h"

#include <map>
#include <tuple>

namespace ronde::engine {

namespace {

/// Tensors with equal keys may share a plan.
using FusionKey = std::tuple<OpKind, ReduceOp, DType, int, double, double, bool>;

FusionKey fusion_key(const Agreed& agreed, const Tensor& tensor) {
  const Request& request = *agreed.request;
  return {request.kind,     request.reduce_op, tensor.dtype,          request.root,
          request.prescale, request.postscale, !agreed.places.empty()};  // private ones would keep shared ones from
                                                                         // being reduced where they lie
}

PlannedWork start_plan(const Request& request, const Group& group) {
  PlannedWork work;
  work.plan.kind = request.kind;
  work.plan.reduce_op = request.reduce_op;
  work.plan.dtype = request.tensors.empty() ? DType::uint8 : request.tensors.front().input.dtype;
  work.plan.prescale = request.prescale;
  work.plan.postscale = request.postscale;
  work.plan.root = has_root(request.kind) ? group.index_of(request.root) : 0;
  return work;
}

class Packer {
 public:
  Packer(const control::SettingsEntry& settings, const Group& group) : settings_(settings), group_(group) {}

  void add(std::size_t owner, const Agreed& agreed, std::size_t index) {
    const Request& request = *agreed.request;
    const RequestTensor& tensor = request.tensors[index];
    PlannedWork& work = room_for(agreed, tensor.input);
    work.plan.members.push_back({request.name, tensor.input, tensor.output, agreed.places});
    work.owners.push_back(owner);
    if (index < agreed.rows.size()) {
      work.plan.rows.push_back(agreed.rows[index]);
    }
  }
  void add_barrier(std::size_t owner, const Request& request) {
    works_.push_back(start_plan(request, group_));
    works_.back().plan.members.push_back({request.name, {}, {}});
    works_.back().plan.members.back().input.shape = {0};
    works_.back().plan.members.back().output.shape = {0};
    works_.back().owners.push_back(owner);
  }
  std::vector<PlannedWork> take() { return std::move(works_); }

 private:
  /// The open plan that this tensor may join, or a new one.
  PlannedWork& room_for(const Agreed& agreed, const Tensor& tensor) {
    const Request& request = *agreed.request;
    const std::size_t bytes = tensor.bytes();
    const bool small = traits(request.kind).fuses && settings_.fusion_threshold > 0 && bytes <= settings_.fusion_small;
    if (small) {
      const auto open = open_.find(fusion_key(agreed, tensor));
      if (open != open_.end() && open->second.bytes + bytes <= settings_.fusion_threshold) {
        open->second.bytes += bytes;
        return works_[open->second.work];
      }
    }
    works_.push_back(start_plan(request, group_));
    works_.back().plan.dtype = tensor.dtype;
    if (small) {
      open_[fusion_key(agreed, tensor)] = {works_.size() - 1, bytes};
    }
    return works_.back();
  }

  struct Open {
    std::size_t work = 0;
    std::size_t bytes = 0;
  };

  const control::SettingsEntry& settings_;
  const Group& group_;
  std::vector<PlannedWork> works_;
  std::map<FusionKey, Open> open_;
};

}  // namespace

std::vector<PlannedWork> make_plans(const std::vector<Agreed>& agreed, const control::SettingsEntry& settings,
                                    const Group& group) {
  Packer packer(settings, group);
  for (std::size_t owner = 0; owner < agreed.size(); ++owner) {
    const Request& request = *agreed[owner].request;
    for (std::size_t index = 0; index < request.tensors.size(); ++index) {
      packer.add(owner, agreed[owner], index);
    }
    if (request.tensors.empty()) {
      packer.add_barrier(owner, request);
    }
  }
  return packer.take();
}

}  // namespace ronde::engine
