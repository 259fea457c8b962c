// Part of <ronde/torch.hpp>: the operations on libtorch's tensors. Each exists in a form that blocks until it is done
// and, with _async, in one that returns a Work at once. Options and what they mean: <ronde/request.hpp>.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ronde/torch_tensor.hpp>

namespace ronde {
inline namespace v0 {
namespace torch {

namespace detail {

using Tensors = std::vector<at::Tensor>;

template <typename Options>
void check_all(const Tensors& tensors, const Options& options) {
  for (const at::Tensor& tensor : tensors) {
    check(tensor, options);
  }
}
template <typename Options>
void check_all_written(const Tensors& tensors, const Options& options) {
  for (const at::Tensor& tensor : tensors) {
    check_written(tensor, options);
  }
}

/// What is in memory of the caller's, or is copied there.
inline Work::Finish into(std::vector<Target> targets) {
  return [targets = std::move(targets)](const std::shared_ptr<Ticket>&) {
    Tensors results;
    for (const Target& target : targets) {
      target.finish();
      results.push_back(target.tensor());
    }
    return results;
  };
}
/// What the library has made.
inline Work::Finish made() {
  return [](const std::shared_ptr<Ticket>& ticket) { return Tensors{output_of(ticket)}; };
}

/// A new tensor of the same shape and type, row-major.
inline at::Tensor like(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return at::empty(tensor.sizes(), tensor.options().requires_grad(false).memory_format(at::MemoryFormat::Contiguous));
}

inline Work reduce_all(const Tensors& tensors, const AllreduceOptions& options, bool in_place) {
  in_place ? check_all_written(tensors, options) : check_all(tensors, options);
  std::vector<Target> targets;
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;
  Tensors kept;
  for (const at::Tensor& tensor : tensors) {
    targets.emplace_back(in_place ? tensor : like(tensor));
    kept.push_back(in_place ? targets.back().memory() : plain(tensor));
    inputs.push_back(input_view(kept.back()));
    kept.push_back(targets.back().memory());
    outputs.push_back(output_view(kept.back()));
  }
  Ticket ticket = grouped_allreduce_async(inputs, outputs, options);
  return {std::move(ticket), std::move(kept), into(std::move(targets))};
}

/// Operations whose output the library makes, of one input.
template <typename Options, typename Submit>
Work gathering(const at::Tensor& tensor, const Options& options, const Submit& submit) {
  check(tensor, options);
  Tensors kept{plain(tensor)};
  Ticket ticket = submit(input_view(kept.front()));
  return {std::move(ticket), std::move(kept), made()};
}

template <typename Options>
Work prefix(ronde_op which, const at::Tensor& tensor, const Options& options) {
  check(tensor, options);
  Tensors kept{plain(tensor), like(tensor)};
  std::vector<Target> targets{Target(kept[1])};
  Ticket ticket = ronde::detail::scan(which, input_view(kept[0]), output_view(kept[1]), options, ronde::detail::submit);
  return {std::move(ticket), std::move(kept), into(std::move(targets))};
}

}  // namespace detail

// ---- All-reduce: every rank gets the combination of all ranks' values

inline Work allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options) {
  return detail::reduce_all({tensor}, options, false);
}
inline Work allreduce_async_(const at::Tensor& tensor, const AllreduceOptions& options) {
  return detail::reduce_all({tensor}, options, true);
}
/// Several tensors under one name, all or nothing; types and shapes may differ.
inline Work grouped_allreduce_async(const std::vector<at::Tensor>& tensors, const AllreduceOptions& options) {
  return detail::reduce_all(tensors, options, false);
}
inline Work grouped_allreduce_async_(const std::vector<at::Tensor>& tensors, const AllreduceOptions& options) {
  return detail::reduce_all(tensors, options, true);
}
inline at::Tensor allreduce(const at::Tensor& tensor, const AllreduceOptions& options = {}) {
  return allreduce_async(tensor, options).wait();
}
inline at::Tensor allreduce_(const at::Tensor& tensor, const AllreduceOptions& options = {}) {
  return allreduce_async_(tensor, options).wait();
}
inline std::vector<at::Tensor> grouped_allreduce(const std::vector<at::Tensor>& tensors,
                                                 const AllreduceOptions& options = {}) {
  return grouped_allreduce_async(tensors, options).wait_all();
}
inline std::vector<at::Tensor> grouped_allreduce_(const std::vector<at::Tensor>& tensors,
                                                  const AllreduceOptions& options = {}) {
  return grouped_allreduce_async_(tensors, options).wait_all();
}

// ---- Rows: dimension 0 counts them, and a tensor has at least that one

/// All ranks' rows, in rank order. The ranks may have different numbers of rows, or none.
inline Work allgather_async(const at::Tensor& rows, const RequestOptions& options) {
  return detail::gathering(rows, options, [&](const ConstTensorView& view) {
    return ronde::detail::allgather(view, options, ronde::detail::submit);
  });
}
inline at::Tensor allgather(const at::Tensor& rows, const RequestOptions& options = {}) {
  return allgather_async(rows, options).wait();
}
/// As allgather(), but only the root gets the rows; the others get none.
inline Work gather_async(const at::Tensor& rows, const GatherOptions& options) {
  return detail::gathering(rows, options, [&](const ConstTensorView& view) {
    return ronde::detail::gather(view, options, ronde::detail::submit);
  });
}
inline at::Tensor gather(const at::Tensor& rows, const GatherOptions& options = {}) {
  return gather_async(rows, options).wait();
}
/// This rank's rows of the root's tensor. The others' `rows` say type and shape only, and dimension 0 not even that.
inline Work scatter_async(const at::Tensor& rows, const ScatterOptions& options) {
  return detail::gathering(rows, options, [&](const ConstTensorView& view) {
    return ronde::detail::scatter(view, options, ronde::detail::submit);
  });
}
inline at::Tensor scatter(const at::Tensor& rows, const ScatterOptions& options = {}) {
  return scatter_async(rows, options).wait();
}
/// This rank's rows of the reduced tensor: equally many, the first `rows % size` ranks one more.
inline Work reducescatter_async(const at::Tensor& tensor, const AllreduceOptions& options) {
  return detail::gathering(tensor, options, [&](const ConstTensorView& view) {
    return ronde::detail::reducescatter(view, options, ronde::detail::submit);
  });
}
inline at::Tensor reducescatter(const at::Tensor& tensor, const AllreduceOptions& options = {}) {
  return reducescatter_async(tensor, options).wait();
}
/// Rank r gets `options.splits[r]` rows of each rank, in rank order. received_splits() says how many came of whom.
inline Work alltoall_async(const at::Tensor& rows, const AlltoallOptions& options) {
  return detail::gathering(rows, options, [&](const ConstTensorView& view) {
    return ronde::detail::alltoall(view, options, ronde::detail::submit);
  });
}
inline at::Tensor alltoall(const at::Tensor& rows, const AlltoallOptions& options = {}) {
  return alltoall_async(rows, options).wait();
}
/// Of an alltoall_async() that was waited for.
inline std::vector<std::int64_t> received_splits(const Work& work) {
  const std::int64_t* splits = nullptr;
  std::size_t count = 0;
  ronde::detail::check(ronde_ticket_splits(work.ticket().handle(), &splits, &count));
  return {splits, splits + count};
}

// ---- One rank has another part than the others

/// Every rank's tensor becomes the root's.
inline Work broadcast_async_(const at::Tensor& tensor, const BroadcastOptions& options) {
  detail::check_written(tensor, options);
  std::vector<detail::Target> targets{detail::Target(tensor)};
  std::vector<at::Tensor> kept{targets.front().memory()};
  Ticket ticket = ronde::broadcast_async(detail::output_view(kept.front()), options);
  return {std::move(ticket), std::move(kept), detail::into(std::move(targets))};
}
inline at::Tensor broadcast_(const at::Tensor& tensor, const BroadcastOptions& options = {}) {
  return broadcast_async_(tensor, options).wait();
}
/// The root's values, in a new tensor.
inline at::Tensor broadcast(const at::Tensor& tensor, const BroadcastOptions& options = {}) {
  detail::check(tensor, options);
  const at::NoGradGuard no_grad;
  return broadcast_(tensor.detach().clone(at::MemoryFormat::Contiguous), options);
}
/// The root's tensor becomes the reduction of all ranks'; the others' stay as they are.
inline Work reduce_async_(const at::Tensor& tensor, const ReduceOptions& options) {
  const bool is_root = ronde::rank(options.engine) == options.root;
  is_root ? detail::check_written(tensor, options) : detail::check(tensor, options);
  std::vector<detail::Target> targets{detail::Target(is_root ? tensor : detail::like(tensor))};
  std::vector<at::Tensor> kept{is_root ? targets.front().memory() : detail::plain(tensor), targets.front().memory()};
  Ticket ticket = ronde::reduce_async(detail::input_view(kept[0]), detail::output_view(kept[1]), options);
  return {std::move(ticket), std::move(kept), is_root ? detail::into(std::move(targets)) : detail::into({})};
}
inline void reduce_(const at::Tensor& tensor, const ReduceOptions& options = {}) {
  reduce_async_(tensor, options).wait();
}

// ---- Prefix reductions over the ranks, in rank order

/// Of the ranks up to and including this one.
inline Work scan_async(const at::Tensor& tensor, const ScanOptions& options) {
  return detail::prefix(RONDE_SCAN, tensor, options);
}
inline at::Tensor scan(const at::Tensor& tensor, const ScanOptions& options = {}) {
  return scan_async(tensor, options).wait();
}
/// Of the ranks before this one; rank 0 gets the neutral value.
inline Work exscan_async(const at::Tensor& tensor, const ScanOptions& options) {
  return detail::prefix(RONDE_EXSCAN, tensor, options);
}
inline at::Tensor exscan(const at::Tensor& tensor, const ScanOptions& options = {}) {
  return exscan_async(tensor, options).wait();
}

// ---- Two ranks, by tag

inline Work send_async(const at::Tensor& tensor, const PeerOptions& options) {
  detail::check(tensor, options);
  std::vector<at::Tensor> kept{detail::plain(tensor)};
  Ticket ticket = ronde::send_async(detail::input_view(kept.front()), options);
  return {std::move(ticket), std::move(kept), detail::into({})};
}
/// Returns when the receiver has the data.
inline void send(const at::Tensor& tensor, const PeerOptions& options) { send_async(tensor, options).wait(); }
/// Fills the tensor, of the sent one's type and number of elements.
inline Work recv_async_(const at::Tensor& tensor, const PeerOptions& options) {
  detail::check_written(tensor, options);
  std::vector<detail::Target> targets{detail::Target(tensor)};
  std::vector<at::Tensor> kept{targets.front().memory()};
  Ticket ticket = ronde::recv_async(detail::output_view(kept.front()), options);
  return {std::move(ticket), std::move(kept), detail::into(std::move(targets))};
}
/// The same; returns the rank that sent.
inline int recv_(const at::Tensor& tensor, const PeerOptions& options) {
  Work work = recv_async_(tensor, options);
  work.wait();
  return source_of(work.ticket());
}

// ---- Whole models

/// All parameters and buffers of a module become the root's. Every rank's module has the same ones.
inline void broadcast_parameters(const ::torch::nn::Module& module, int root = 0, const Engine* engine = nullptr) {
  std::vector<Work> works;
  const auto begin = [&](const auto& tensors, const std::string& kind) {
    for (const auto& item : tensors) {
      if (item.value().defined()) {
        const std::string name = kind + "." + item.key();
        works.push_back(broadcast_async_(item.value().detach(), {.name = name, .root = root, .engine = engine}));
      }
    }
  };
  begin(module.named_parameters(), "broadcast.parameter");
  begin(module.named_buffers(), "broadcast.buffer");
  for (Work& work : works) {
    work.wait();
  }
}

namespace detail {

/// libtorch crashes where it loads the state of such an optimizer.
inline void check_no_parameter_twice(const ::torch::optim::Optimizer& optimizer) {
  std::unordered_set<const void*> seen;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) {
        throw Error(
            Code::invalid_argument,
            "the optimizer has a parameter twice, and libtorch cannot load the state of such a one: give it each "
            "parameter once");
      }
    }
  }
}

}  // namespace detail

/// An optimizer's options and state (moments, step counts) become the root's. The optimizers are of one class, and of
/// parameters of the same shapes in one order, each once (else Code::invalid_argument). Others' state is replaced
/// whole.
inline void broadcast_optimizer_state(::torch::optim::Optimizer& optimizer, int root = 0,
                                      const Engine* engine = nullptr) {
  detail::check_no_parameter_twice(optimizer);
  std::string bytes;
  if (ronde::rank(engine) == root) {
    ::torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    std::ostringstream stream;
    archive.save_to(stream);
    bytes = stream.str();
  }
  std::int64_t size[] = {static_cast<std::int64_t>(bytes.size())};
  ronde::broadcast(size, {.name = "broadcast.optimizer_state.size", .root = root, .engine = engine});
  std::vector<unsigned char> data(bytes.begin(), bytes.end());
  data.resize(static_cast<std::size_t>(size[0]));
  ronde::broadcast(data, {.name = "broadcast.optimizer_state", .root = root, .engine = engine});
  if (ronde::rank(engine) != root) {
    std::istringstream stream(std::string(data.begin(), data.end()));
    ::torch::serialize::InputArchive archive;
    archive.load_from(stream);
    optimizer.state().clear();  // load() adds to what is there
    optimizer.load(archive);
  }
}

}  // namespace torch
}  // namespace v0
}  // namespace ronde
