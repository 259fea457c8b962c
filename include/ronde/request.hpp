// Part of <ronde/ronde.hpp>: the operations. Each exists in a form that blocks until it is done and, with _async, in
// one that returns a Ticket at once.
#pragma once

#include <ronde/ronde.h>
#include <ronde/error.hpp>
#include <ronde/group.hpp>
#include <ronde/job.hpp>
#include <ronde/tensor.hpp>
#include <ronde/ticket.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

namespace ronde {
inline namespace v0 {

/// How an all-reduce combines the ranks' values.
enum class Op : ronde_reduce_op {
  average = RONDE_AVERAGE,
  sum = RONDE_SUM,
  adasum = RONDE_ADASUM,
  min = RONDE_MIN,
  max = RONDE_MAX,
  product = RONDE_PRODUCT,
  bit_and = RONDE_BIT_AND,
  bit_or = RONDE_BIT_OR,
  bit_xor = RONDE_BIT_XOR,
};

/// Called once per successful submit when the request is done, with its error or null, on the engine's thread, maybe
/// after a wait() for the same request has returned. It may submit, and must not wait; what it throws is logged.
using DoneCallback = std::function<void(const Error* error)>;

/// What every request may say. `name` is 1 to 4096 bytes and the same on all ranks; without one calls pair by their
/// order.
struct RequestOptions {
  std::string_view name = {};
  double timeout_s = 0;  ///< how long the ranks may take; 0: the engine's; < 0: no limit
  DoneCallback on_done = {};
  const Engine* engine = nullptr;  ///< null: the shared one
  Group group = {};                ///< whose ranks take part; all, if nothing is said
};

struct AllreduceOptions {
  std::string_view name = {};
  Op op = Op::average;
  double prescale = 1;   ///< each value is multiplied by it as it is read; not 0
  double postscale = 1;  ///< the result is multiplied by it, last; not 0
  double timeout_s = 0;
  DoneCallback on_done = {};
  const Engine* engine = nullptr;
  Group group = {};
};

struct BroadcastOptions {
  std::string_view name = {};
  int root = 0;  ///< the rank whose data all get; of the job, also in a group
  double timeout_s = 0;
  DoneCallback on_done = {};
  const Engine* engine = nullptr;
  Group group = {};
};

struct AlltoallOptions {
  std::string_view name = {};
  std::span<const std::int64_t> splits = {};  ///< rows for each rank; empty: equally many
  double timeout_s = 0;
  DoneCallback on_done = {};
  const Engine* engine = nullptr;
  Group group = {};
};

struct ReduceOptions {
  std::string_view name = {};
  int root = 0;  ///< the rank that gets the result
  Op op = Op::average;
  double prescale = 1;
  double postscale = 1;
  double timeout_s = 0;
  DoneCallback on_done = {};
  const Engine* engine = nullptr;
  Group group = {};
};

/// `root`: the rank that gets all rows.
using GatherOptions = BroadcastOptions;

struct ScatterOptions {
  std::string_view name = {};
  int root = 0;                               ///< the rank whose rows are spread
  std::span<const std::int64_t> splits = {};  ///< there: rows for each rank; empty: equally many
  double timeout_s = 0;
  DoneCallback on_done = {};
  const Engine* engine = nullptr;
  Group group = {};
};

inline constexpr int kAnySource = RONDE_ANY_SOURCE;

/// Of a send or recv. `name` is for reports on this rank only.
struct PeerOptions {
  std::string_view name = {};
  int peer = 0;          ///< another rank; of a recv also kAnySource, whichever sends first
  std::int32_t tag = 0;  ///< the recvs of a tag take what a rank sends under it, in the order of its sends
  double timeout_s = 0;
  DoneCallback on_done = {};
  const Engine* engine = nullptr;
  Group group = {};
};

namespace detail {

/// Throws what the arguments of a call are refused with. One without a name counts nevertheless, and the other ranks,
/// which may make it, are told.
template <typename Options>
[[noreturn]] void refuse(const Options& options, const std::string& why) {
  ronde_engine* const engine = options.engine ? options.engine->handle() : nullptr;
  std::uint64_t number = 0;
  if (options.name.data() == nullptr && ronde_call_number(engine, options.group.id, &number) == RONDE_OK) {
    static_cast<void>(ronde_refuse_call(engine, options.group.id, number, why.data(), why.size()));
  }
  throw Error(Code::invalid_argument, why, std::string(options.name));
}

/// A request of the C interface with everything it points to.
class Request {
 public:
  template <typename Options>
  Request(ronde_op op, const Options& options) : engine_(options.engine ? options.engine->handle() : nullptr) {
    request_.struct_size = sizeof(request_);
    request_.op = op;
    request_.name = options.name.data();
    request_.name_bytes = options.name.size();
    request_.timeout_s = options.timeout_s;
    request_.group = options.group.id;
    if (options.on_done) {
      callback_ = std::make_unique<DoneCallback>(options.on_done);
      request_.on_done = &Request::on_done;
      request_.user = callback_.get();
    }
  }

  void set_inputs(std::span<const ronde_tensor> inputs) {
    request_.inputs = inputs.data();
    request_.count = inputs.size();
  }
  template <typename Options>
  void set_outputs(std::span<const ronde_tensor> outputs, const Options& options) {
    if (outputs.size() != request_.count) {
      refuse(options, "a request needs as many outputs as inputs");
    }
    request_.outputs = outputs.data();
  }
  void set_root(int root) { request_.root = root; }
  void set_splits(std::span<const std::int64_t> splits) {
    request_.splits = splits.data();
    request_.splits_count = splits.size();
  }
  void set_tag(std::int32_t tag) { request_.tag = tag; }
  template <typename Options>
  void set_reduction(const Options& options) {
    // The C interface reads 0 as "not given".
    if (options.prescale == 0 || options.postscale == 0) {
      refuse(options, "prescale and postscale must not be 0");
    }
    request_.reduce_op = static_cast<ronde_reduce_op>(options.op);
    request_.prescale = options.prescale;
    request_.postscale = options.postscale;
  }

  /// Hands the request in.
  Ticket submit() {
    ronde_ticket* ticket = nullptr;
    check(ronde_submit(engine_, &request_, &ticket));
    static_cast<void>(callback_.release());  // on_done frees it
    return Ticket(ticket);
  }

  /// Hands the request in and waits; returns the ticket of a success.
  Ticket execute() {
    ronde_ticket* handle = nullptr;
    const ronde_status status = ronde_execute(engine_, &request_, -1, &handle);
    Ticket ticket(handle);
    if (handle != nullptr) {
      static_cast<void>(callback_.release());
    }
    if (status == RONDE_INTERRUPTED) {
      ticket.wait();
    } else if (status != RONDE_OK) {
      throw error_of(handle, status);
    }
    return ticket;
  }

 private:
  static void on_done(void* user, ronde_ticket* ticket, ronde_status status) {
    const std::unique_ptr<DoneCallback> callback(static_cast<DoneCallback*>(user));
    try {
      if (status == RONDE_OK) {
        (*callback)(nullptr);
      } else {
        const Error error = error_of(ticket, status);
        (*callback)(&error);
      }
#ifdef __GLIBCXX__
    } catch (const abi::__forced_unwind&) {
      throw;  // the callback has ended its thread, which nothing may stop
#endif
    } catch (const std::exception& error) {
      ronde_callback_threw(ticket, error.what());
    } catch (...) {
      ronde_callback_threw(ticket, "something that is no std::exception");
    }
  }

  ronde_engine* engine_;
  ronde_request request_{};
  std::unique_ptr<DoneCallback> callback_;
};

template <typename View>
std::vector<ronde_tensor> to_c(std::span<const View> views) {
  std::vector<ronde_tensor> tensors;
  tensors.reserve(views.size());
  for (const View& view : views) {
    tensors.push_back(view.to_c());
  }
  return tensors;
}

/// Fills in an all-reduce and hands it to `finish`, which submits or executes it while everything is alive.
template <typename InputView, typename Finish>
Ticket allreduce(std::span<const InputView> inputs, std::span<const TensorView> outputs,
                 const AllreduceOptions& options, Finish finish) {
  const std::vector<ronde_tensor> c_inputs = to_c(inputs);
  const std::vector<ronde_tensor> c_outputs = to_c(outputs);
  Request request(RONDE_ALLREDUCE, options);
  request.set_reduction(options);
  request.set_inputs(c_inputs);
  request.set_outputs(c_outputs, options);
  return finish(request);
}

inline Ticket submit(Request& request) { return request.submit(); }
inline Ticket execute(Request& request) { return request.execute(); }

}  // namespace detail

// ---- All-reduce: every rank gets the combination of all ranks' values ---------------------------------------------

/// In place.
inline Ticket allreduce_async(const TensorView& tensor, const AllreduceOptions& options) {
  return detail::allreduce<TensorView>({&tensor, 1}, {&tensor, 1}, options, detail::submit);
}
/// Out of place: `output` has the input's type and shape, and may be the input's memory.
inline Ticket allreduce_async(const ConstTensorView& input, const TensorView& output, const AllreduceOptions& options) {
  return detail::allreduce<ConstTensorView>({&input, 1}, {&output, 1}, options, detail::submit);
}
inline void allreduce(const TensorView& tensor, const AllreduceOptions& options) {
  detail::allreduce<TensorView>({&tensor, 1}, {&tensor, 1}, options, detail::execute);
}
inline void allreduce(const ConstTensorView& input, const TensorView& output, const AllreduceOptions& options) {
  detail::allreduce<ConstTensorView>({&input, 1}, {&output, 1}, options, detail::execute);
}

/// Several tensors under one name, all or nothing; types and shapes may differ. In place.
inline Ticket grouped_allreduce_async(std::span<const TensorView> tensors, const AllreduceOptions& options) {
  return detail::allreduce<TensorView>(tensors, tensors, options, detail::submit);
}
inline Ticket grouped_allreduce_async(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                                      const AllreduceOptions& options) {
  return detail::allreduce<ConstTensorView>(inputs, outputs, options, detail::submit);
}
inline void grouped_allreduce(std::span<const TensorView> tensors, const AllreduceOptions& options) {
  detail::allreduce<TensorView>(tensors, tensors, options, detail::execute);
}
inline void grouped_allreduce(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                              const AllreduceOptions& options) {
  detail::allreduce<ConstTensorView>(inputs, outputs, options, detail::execute);
}
/// `grouped_allreduce({weights, bias}, {.name = "layer 1"})`
inline void grouped_allreduce(std::initializer_list<TensorView> tensors, const AllreduceOptions& options) {
  grouped_allreduce(std::span<const TensorView>(tensors.begin(), tensors.size()), options);
}

// ---- All-gather: every rank gets all ranks' rows, in rank order ---------------------------------------------------

namespace detail {
template <typename Range>
using ValueOf = std::ranges::range_value_t<Range>;

template <Element T, typename Options>
void check_type(const ConstTensorView& view, const Options& options) {
  if (view.dtype() != DTypeOf<T>::value) {
    refuse(options, "the view is of another type than the T of the call");
  }
}

inline Ticket allgather(const ConstTensorView& rows, const RequestOptions& options, Ticket (*finish)(Request&)) {
  const ronde_tensor input = rows.to_c();
  Request request(RONDE_ALLGATHER, options);
  request.set_inputs({&input, 1});
  return finish(request);
}
}  // namespace detail

/// Each element is a row. The ranks may have different numbers of rows, or none.
template <std::ranges::contiguous_range Range>
requires Element<detail::ValueOf<Range>> GatherTicket<detail::ValueOf<Range>> allgather_async(
    Range&& rows, const RequestOptions& options) {
  return GatherTicket<detail::ValueOf<Range>>(detail::allgather(ConstTensorView(rows), options, detail::submit));
}
template <std::ranges::contiguous_range Range>
requires Element<detail::ValueOf<Range>> Gathered<detail::ValueOf<Range>> allgather(Range&& rows,
                                                                                    const RequestOptions& options) {
  return Gathered<detail::ValueOf<Range>>(detail::allgather(ConstTensorView(rows), options, detail::execute));
}
/// Rows of any shape: dimension 0 counts them and may differ between ranks, the other dimensions may not. T is the
/// element type, which a view does not know at compile time; throws Code::invalid_argument if it is not the view's.
template <Element T>
Gathered<T> allgather(const ConstTensorView& rows, const RequestOptions& options) {
  detail::check_type<T>(rows, options);
  return Gathered<T>(detail::allgather(rows, options, detail::execute));
}

// ---- All-to-all: every rank has rows for every rank. Reduce-scatter: every rank gets a part of the reduced tensor
// -----

namespace detail {
inline Ticket alltoall(const ConstTensorView& rows, const AlltoallOptions& options, Ticket (*finish)(Request&)) {
  const ronde_tensor input = rows.to_c();
  Request request(RONDE_ALLTOALL, options);
  request.set_inputs({&input, 1});
  request.set_splits(options.splits);
  return finish(request);
}
inline Ticket reducescatter(const ConstTensorView& tensor, const AllreduceOptions& options,
                            Ticket (*finish)(Request&)) {
  const ronde_tensor input = tensor.to_c();
  Request request(RONDE_REDUCESCATTER, options);
  request.set_inputs({&input, 1});
  request.set_reduction(options);
  return finish(request);
}
}  // namespace detail

/// Rank r gets `splits[r]` rows (dimension 0) of each rank, in rank order: received_splits() says how many of whom. The
/// ranks may have different numbers of rows. T is the view's element type, as in allgather<T>.
template <Element T>
Gathered<T> alltoall(const ConstTensorView& rows, const AlltoallOptions& options) {
  detail::check_type<T>(rows, options);
  return Gathered<T>(detail::alltoall(rows, options, detail::execute));
}
template <Element T>
GatherTicket<T> alltoall_async(const ConstTensorView& rows, const AlltoallOptions& options) {
  detail::check_type<T>(rows, options);
  return GatherTicket<T>(detail::alltoall(rows, options, detail::submit));
}

/// The ranks' tensors, of one shape, are reduced as in allreduce(), and each rank gets its rows (dimension 0): equally
/// many, the first `rows % size` ranks one more.
template <Element T>
Gathered<T> reducescatter(const ConstTensorView& tensor, const AllreduceOptions& options) {
  detail::check_type<T>(tensor, options);
  return Gathered<T>(detail::reducescatter(tensor, options, detail::execute));
}
template <Element T>
GatherTicket<T> reducescatter_async(const ConstTensorView& tensor, const AllreduceOptions& options) {
  detail::check_type<T>(tensor, options);
  return GatherTicket<T>(detail::reducescatter(tensor, options, detail::submit));
}

// ---- Reduce, gather, scatter: one rank has another part than the others --------------------------------------------

namespace detail {
inline Ticket reduce(const ConstTensorView& input, const ConstTensorView& output, const ReduceOptions& options,
                     Ticket (*finish)(Request&)) {
  const ronde_tensor c_input = input.to_c();
  const ronde_tensor c_output = output.to_c();
  Request request(RONDE_REDUCE, options);
  request.set_inputs({&c_input, 1});
  request.set_outputs({&c_output, 1}, options);
  request.set_root(options.root);
  request.set_reduction(options);
  return finish(request);
}
inline Ticket gather(const ConstTensorView& rows, const GatherOptions& options, Ticket (*finish)(Request&)) {
  const ronde_tensor input = rows.to_c();
  Request request(RONDE_GATHER, options);
  request.set_inputs({&input, 1});
  request.set_root(options.root);
  return finish(request);
}
inline Ticket scatter(const ConstTensorView& rows, const ScatterOptions& options, Ticket (*finish)(Request&)) {
  const ronde_tensor input = rows.to_c();
  Request request(RONDE_SCATTER, options);
  request.set_inputs({&input, 1});
  request.set_root(options.root);
  request.set_splits(options.splits);
  return finish(request);
}
}  // namespace detail

/// As allreduce(), but only the root's output is written. `output` has the input's type and shape, and may be its
/// memory; elsewhere it is not touched.
inline void reduce(const ConstTensorView& input, const TensorView& output, const ReduceOptions& options) {
  detail::reduce(input, output, options, detail::execute);
}
inline Ticket reduce_async(const ConstTensorView& input, const TensorView& output, const ReduceOptions& options) {
  return detail::reduce(input, output, options, detail::submit);
}
/// In place.
inline void reduce(const TensorView& tensor, const ReduceOptions& options) {
  detail::reduce(tensor, tensor, options, detail::execute);
}
inline Ticket reduce_async(const TensorView& tensor, const ReduceOptions& options) {
  return detail::reduce(tensor, tensor, options, detail::submit);
}

/// As allgather<T>, but only the root gets the rows; the others get none.
template <Element T>
Gathered<T> gather(const ConstTensorView& rows, const GatherOptions& options) {
  detail::check_type<T>(rows, options);
  return Gathered<T>(detail::gather(rows, options, detail::execute));
}
template <Element T>
GatherTicket<T> gather_async(const ConstTensorView& rows, const GatherOptions& options) {
  detail::check_type<T>(rows, options);
  return GatherTicket<T>(detail::gather(rows, options, detail::submit));
}

/// Each rank gets its rows of the root's tensor. The others' `rows` say type and shape only: dimension 0 is not looked
/// at, nothing is read.
template <Element T>
Gathered<T> scatter(const ConstTensorView& rows, const ScatterOptions& options) {
  detail::check_type<T>(rows, options);
  return Gathered<T>(detail::scatter(rows, options, detail::execute));
}
template <Element T>
GatherTicket<T> scatter_async(const ConstTensorView& rows, const ScatterOptions& options) {
  detail::check_type<T>(rows, options);
  return GatherTicket<T>(detail::scatter(rows, options, detail::submit));
}

// ---- Send and recv: two ranks, by tag ------------------------------------------------------------------------------

namespace detail {
inline Ticket message(ronde_op op, const ronde_tensor& tensor, const PeerOptions& options, Ticket (*finish)(Request&)) {
  Request request(op, options);
  request.set_inputs({&tensor, 1});
  request.set_root(options.peer);
  request.set_tag(options.tag);
  return finish(request);
}
}  // namespace detail

/// Returns when the receiver has the data. Two ranks that both wait in send() wait for each other.
inline void send(const ConstTensorView& tensor, const PeerOptions& options) {
  detail::message(RONDE_SEND, tensor.to_c(), options, detail::execute);
}
inline Ticket send_async(const ConstTensorView& tensor, const PeerOptions& options) {
  return detail::message(RONDE_SEND, tensor.to_c(), options, detail::submit);
}
/// The rank that sent, of a recv that has succeeded.
inline int source_of(const Ticket& ticket) {
  std::int32_t rank = -1;
  detail::check(ronde_ticket_source(ticket.handle(), &rank));
  return rank;
}
/// Fills the tensor, of the sent one's type and number of elements. Returns the rank that sent.
inline int recv(const TensorView& tensor, const PeerOptions& options) {
  return source_of(detail::message(RONDE_RECV, tensor.to_c(), options, detail::execute));
}
inline Ticket recv_async(const TensorView& tensor, const PeerOptions& options) {
  return detail::message(RONDE_RECV, tensor.to_c(), options, detail::submit);
}

// ---- Broadcast, barrier and join ----------------------------------------------------------------------------------

namespace detail {
inline Ticket broadcast(const TensorView& tensor, const BroadcastOptions& options, Ticket (*finish)(Request&)) {
  const ronde_tensor c_tensor = tensor.to_c();
  Request request(RONDE_BROADCAST, options);
  request.set_inputs({&c_tensor, 1});
  request.set_outputs({&c_tensor, 1}, options);
  request.set_root(options.root);
  return finish(request);
}
}  // namespace detail

/// Every rank's `tensor` becomes the root's. In place.
inline Ticket broadcast_async(const TensorView& tensor, const BroadcastOptions& options) {
  return detail::broadcast(tensor, options, detail::submit);
}
inline void broadcast(const TensorView& tensor, const BroadcastOptions& options) {
  detail::broadcast(tensor, options, detail::execute);
}

/// Returns when all ranks have called it.
inline void barrier(const RequestOptions& options = {.name = "ronde.barrier"}) {
  detail::Request(RONDE_BARRIER, options).execute();
}

/// This rank has no more data. Returns when every rank of the group has joined; until then the others' all-reduces go
/// on as if it had neutral values, what each rank has a part in fails (<ronde/ronde.h>), and this rank submits nothing.
/// Returns the rank that joined last.
inline int join(const RequestOptions& options = {.name = "ronde.join"}) {
  const Ticket ticket = detail::Request(RONDE_JOIN, options).execute();
  void* data = nullptr;
  detail::check(ronde_ticket_output(ticket.handle(), 0, &data, nullptr, nullptr, nullptr));
  return *static_cast<const std::int32_t*>(data);
}

}  // namespace v0
}  // namespace ronde
