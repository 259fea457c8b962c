#include "kernels.h"

#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "attributes.h"
#include "flights.h"
#include "operations.h"

namespace ronde::tf {

namespace {

/// Extents of a tensor as the engine reads them.
using Extents = std::array<std::int64_t, 32>;

Code code_of(ronde_status status) {
  switch (status) {
    case RONDE_INVALID_ARGUMENT:
    case RONDE_MISMATCH: return Code::invalid_argument;
    case RONDE_NOT_INITIALIZED:
    case RONDE_FORKED: return Code::failed_precondition;
    case RONDE_NOT_IMPLEMENTED: return Code::unimplemented;
    case RONDE_DUPLICATE_NAME: return Code::already_exists;
    case RONDE_PEER_LOST:
    case RONDE_PEER_LEFT: return Code::unavailable;
    case RONDE_TIMED_OUT: return Code::deadline_exceeded;
    case RONDE_CANCELLED: return Code::aborted;
    case RONDE_OUT_OF_MEMORY: return Code::resource_exhausted;
    default: return Code::internal;
  }
}

std::optional<ronde_dtype> dtype_of(DataType type) {
  switch (type) {
    case DataType::float32: return RONDE_FLOAT32;
    case DataType::float64: return RONDE_FLOAT64;
    case DataType::int32: return RONDE_INT32;
    case DataType::uint8: return RONDE_UINT8;
    case DataType::int16: return RONDE_INT16;
    case DataType::int8: return RONDE_INT8;
    case DataType::complex64: return RONDE_COMPLEX64;
    case DataType::int64: return RONDE_INT64;
    case DataType::boolean: return RONDE_BOOL;
    case DataType::bfloat16: return RONDE_BFLOAT16;
    case DataType::uint16: return RONDE_UINT16;
    case DataType::complex128: return RONDE_COMPLEX128;
    case DataType::float16: return RONDE_FLOAT16;
    case DataType::uint32: return RONDE_UINT32;
    case DataType::uint64: return RONDE_UINT64;
  }
  return std::nullopt;
}

DataType type_of(ronde_dtype dtype) {
  switch (dtype) {
    case RONDE_FLOAT64: return DataType::float64;
    case RONDE_INT32: return DataType::int32;
    case RONDE_UINT8: return DataType::uint8;
    case RONDE_INT16: return DataType::int16;
    case RONDE_INT8: return DataType::int8;
    case RONDE_COMPLEX64: return DataType::complex64;
    case RONDE_INT64: return DataType::int64;
    case RONDE_BOOL: return DataType::boolean;
    case RONDE_BFLOAT16: return DataType::bfloat16;
    case RONDE_UINT16: return DataType::uint16;
    case RONDE_COMPLEX128: return DataType::complex128;
    case RONDE_FLOAT16: return DataType::float16;
    case RONDE_UINT32: return DataType::uint32;
    case RONDE_UINT64: return DataType::uint64;
    default: return DataType::float32;
  }
}

/// One run of a kernel. What fails first is told to TensorFlow at its end.
class Run {
 public:
  explicit Run(OpKernelContext* context) : context_(context) {}

  OpKernelContext* context() const { return context_; }
  Status* status() { return status_.get(); }
  bool is_ok() const { return status_.is_ok(); }

  void fail(Code code, const std::string& message) { functions().set_status(status(), code, message.c_str()); }
  void fail(const Outcome& outcome) {
    bindings::Failures::instance().keep(outcome);
    fail(code_of(outcome.status), outcome.message);
  }

  /// A reference that the caller owns; null after a failure.
  Tensor* input(int index) {
    Tensor* tensor = nullptr;
    functions().get_input(context_, index, &tensor, status());
    return tensor;
  }
  /// A reference to memory for an output, which the caller owns; null after a failure.
  Tensor* allocate(int index, DataType type, const std::int64_t* extents, int dimensions, std::size_t bytes) {
    return functions().allocate_output(context_, index, type, extents, dimensions, bytes, status());
  }
  /// The value of a scalar of int64; 0 after a failure.
  std::int64_t integer(int index) {
    Tensor* tensor = input(index);
    std::int64_t value = 0;
    if (tensor != nullptr) {
      std::memcpy(&value, functions().tensor_data(tensor), sizeof(value));
      functions().delete_tensor(tensor);
    }
    return value;
  }
  void give_integer(int index, std::int64_t value) {
    if (Tensor* tensor = allocate(index, DataType::int64, nullptr, 0, sizeof(value))) {
      std::memcpy(functions().tensor_data(tensor), &value, sizeof(value));
      functions().delete_tensor(tensor);
    }
  }

  void finish() {
    if (!is_ok()) {
      functions().context_failure(context_, status());
    }
  }

 private:
  OpKernelContext* context_;
  ScopedStatus status_;
};

/// The engine's view of a tensor; `extents` must live until the request is submitted. Empty for what it cannot move.
std::optional<ronde_tensor> view_of(const Tensor* tensor, Extents& extents) {
  const Functions& tf = functions();
  const int dimensions = tf.num_dims(tensor);
  const std::optional<ronde_dtype> dtype = dtype_of(tf.tensor_type(tensor));
  if (!dtype || dimensions < 0 || static_cast<std::size_t>(dimensions) > extents.size()) {
    return std::nullopt;
  }
  for (int i = 0; i < dimensions; ++i) {
    extents[static_cast<std::size_t>(i)] = tf.dim(tensor, i);
  }
  ronde_tensor view{};
  view.struct_size = sizeof(view);
  view.data = tf.tensor_data(tensor);
  view.shape = extents.data();
  view.ndim = dimensions;
  view.dtype = *dtype;
  return view;
}

/// The memory of one tensor of a RondeStart: its own, and that of its result, which may be the same.
struct Pair {
  Tensor* input = nullptr;
  Tensor* output = nullptr;
};

/// Takes the i-th input and makes the i-th output, of the input itself where nobody else needs it.
Pair take_pair(Run& run, int index) {
  const Functions& tf = functions();
  Tensor* input = run.input(index);
  if (input == nullptr) {
    return {};
  }
  Extents extents{};
  const std::optional<ronde_tensor> view = view_of(input, extents);
  tf.delete_tensor(input);  // TensorFlow forwards what has no other reference
  if (!view) {
    run.fail(Code::invalid_argument, "Ronde moves tensors of 32 dimensions at most");
    return {};
  }
  int forwarded = -1;
  Pair pair;
  pair.output = tf.forward_input_or_allocate_output(run.context(), &index, 1, index, extents.data(), view->ndim,
                                                    &forwarded, run.status());
  if (pair.output != nullptr && forwarded < 0) {
    pair.input = run.input(index);
  }
  return pair;
}

void submit(Run& run, const Attributes& attributes, const ronde_request& request, std::shared_ptr<Flight> flight,
            int token_output) {
  std::int64_t token = 0;
  const ronde_status status = FlightTable::instance().submit(std::move(flight), request, &token);
  if (status != RONDE_OK) {
    Outcome outcome = bindings::last_failure(status);
    if (outcome.tensor.empty()) {
      outcome.tensor = attributes.name;
    }
    if (status == RONDE_DUPLICATE_NAME) {  // which ranks could not take for another run of the same operation
      outcome.message +=
          ". An operation of a graph that runs several times at once, as in a map of tf.data with num_parallel_calls, "
          "has one name for all: leave num_parallel_calls out, so that ranks run it in one order";
    }
    run.fail(outcome);
    return;
  }
  run.give_integer(token_output, token);
}

void compute_start(Run& run, const Attributes& attributes) {
  const int count = functions().num_inputs(run.context());
  auto flight = std::make_shared<Flight>(attributes.name);
  std::vector<Extents> extents(static_cast<std::size_t>(count));
  std::vector<ronde_tensor> inputs;
  std::vector<ronde_tensor> outputs;
  for (int i = 0; i < count; ++i) {
    const Pair pair = take_pair(run, i);
    for (Tensor* tensor : {pair.input, pair.output}) {
      if (tensor != nullptr) {
        flight->keep(tensor);
      }
    }
    if (!run.is_ok()) {
      return;
    }
    outputs.push_back(*view_of(pair.output, extents[static_cast<std::size_t>(i)]));
    inputs.push_back(outputs.back());
    if (pair.input != nullptr) {
      inputs.back().data = functions().tensor_data(pair.input);
    }
  }
  ronde_request request = attributes.request();
  request.inputs = inputs.data();
  request.outputs = outputs.data();
  request.count = inputs.size();
  submit(run, attributes, request, std::move(flight), count);
}

void compute_start_rows(Run& run, const Attributes& attributes) {
  const Functions& tf = functions();
  const int count = tf.num_inputs(run.context()) - 1;
  auto flight = std::make_shared<Flight>(attributes.name);
  std::vector<Extents> extents(static_cast<std::size_t>(count) + 1);
  std::vector<ronde_tensor> inputs;
  for (int i = 0; i <= count; ++i) {  // the splits come last
    Tensor* tensor = run.input(i);
    if (tensor == nullptr) {
      return;
    }
    flight->keep(tensor);
    const std::optional<ronde_tensor> view = view_of(tensor, extents[static_cast<std::size_t>(i)]);
    if (!view) {
      run.fail(Code::invalid_argument, "Ronde moves tensors of 32 dimensions at most");
      return;
    }
    inputs.push_back(*view);
  }
  ronde_request request = attributes.request();
  const ronde_tensor& splits = inputs.back();
  if (splits.ndim == 1 && splits.shape[0] > 0) {
    request.splits = static_cast<const std::int64_t*>(splits.data);
    request.splits_count = static_cast<std::size_t>(splits.shape[0]);
  }
  request.inputs = count == 0 ? nullptr : inputs.data();
  request.count = static_cast<std::size_t>(count);
  submit(run, attributes, request, std::move(flight), 0);
}

/// Takes the flights of the tokens from this input on; fewer, and a failure, if one is not known.
std::vector<std::shared_ptr<Flight>> take_flights(Run& run, int first, int end) {
  std::vector<std::shared_ptr<Flight>> flights;
  for (int i = first; i < end && run.is_ok(); ++i) {
    const std::int64_t token = run.integer(i);
    if (!run.is_ok()) {
      break;
    }
    std::shared_ptr<Flight> flight = FlightTable::instance().take(token);
    if (flight == nullptr) {
      run.fail(Code::internal,
               "RondeDone waits for a request that is not under way: each RondeStart has one RondeDone");
      break;
    }
    flights.push_back(std::move(flight));
  }
  return flights;
}

/// Waits for all of them; the first that failed is the run's failure.
void wait_for(Run& run, const std::vector<std::shared_ptr<Flight>>& flights) {
  std::vector<ronde_ticket*> tickets;
  tickets.reserve(flights.size());
  for (const std::shared_ptr<Flight>& flight : flights) {
    tickets.push_back(flight->ticket());
  }
  ronde_status status = RONDE_OK;
  do {
    status = ronde_wait_all(tickets.data(), tickets.size(), -1);
  } while (status == RONDE_INTERRUPTED);
  if (status == RONDE_OK) {
    return;
  }
  const Outcome said = bindings::last_failure(status);
  for (const std::shared_ptr<Flight>& flight : flights) {
    if (const Outcome outcome = flight->outcome(); !outcome.is_ok()) {
      run.fail(outcome);
      return;
    }
  }
  run.fail(said);
}

void compute_done(Run& run) {
  const Functions& tf = functions();
  const int outputs = tf.num_outputs(run.context());
  // What has been taken before a failure is waited for all the same: its memory goes with it.
  const std::vector<std::shared_ptr<Flight>> flights = take_flights(run, outputs, tf.num_inputs(run.context()));
  if (!run.is_ok()) {
    return;
  }
  wait_for(run, flights);
  for (int i = 0; i < outputs && run.is_ok(); ++i) {
    if (Tensor* tensor = run.input(i)) {
      tf.set_output(run.context(), i, tensor, run.status());
      tf.delete_tensor(tensor);
    }
  }
}

/// Copies the i-th result of a request into the i-th output.
void give_rows(Run& run, ronde_ticket* ticket, int index) {
  void* data = nullptr;
  const std::int64_t* extents = nullptr;
  std::int32_t dimensions = 0;
  ronde_dtype dtype = 0;
  const ronde_status status =
      ronde_ticket_output(ticket, static_cast<std::size_t>(index), &data, &extents, &dimensions, &dtype);
  if (status != RONDE_OK) {
    run.fail(bindings::last_failure(status));
    return;
  }
  std::size_t bytes = ronde_dtype_bytes(dtype);
  for (std::int32_t i = 0; i < dimensions; ++i) {
    bytes *= static_cast<std::size_t>(extents[i]);
  }
  if (Tensor* tensor = run.allocate(index, type_of(dtype), extents, dimensions, bytes)) {
    if (bytes > 0) {
      std::memcpy(functions().tensor_data(tensor), data, bytes);
    }
    functions().delete_tensor(tensor);
  }
}

/// Gives the rows that came from each rank; none where the request does not tell.
void give_received_splits(Run& run, ronde_ticket* ticket, int index) {
  const std::int64_t* splits = nullptr;
  std::size_t count = 0;
  if (ronde_ticket_splits(ticket, &splits, &count) != RONDE_OK) {
    count = 0;
  }
  const auto extent = static_cast<std::int64_t>(count);
  if (Tensor* tensor = run.allocate(index, DataType::int64, &extent, 1, count * sizeof(std::int64_t))) {
    if (count > 0) {
      std::memcpy(functions().tensor_data(tensor), splits, count * sizeof(std::int64_t));
    }
    functions().delete_tensor(tensor);
  }
}

void compute_done_rows(Run& run) {
  const int outputs = functions().num_outputs(run.context()) - 1;
  const std::vector<std::shared_ptr<Flight>> flights = take_flights(run, 0, 1);
  if (!run.is_ok()) {
    return;
  }
  wait_for(run, flights);
  for (int i = 0; i < outputs && run.is_ok(); ++i) {
    give_rows(run, flights[0]->ticket(), i);
  }
  if (run.is_ok()) {
    give_received_splits(run, flights[0]->ticket(), outputs);
  }
}

void compute_topology(Run& run, const std::int64_t& what) {
  ronde_topology topology{};
  topology.struct_size = sizeof(topology);
  if (const ronde_status status = ronde_get_topology(nullptr, &topology); status != RONDE_OK) {
    run.fail(bindings::last_failure(status));
    return;
  }
  const std::int32_t values[] = {topology.rank, topology.size, topology.local_rank, topology.local_size};
  const auto index = static_cast<std::size_t>(what) % std::size(values);
  if (Tensor* tensor = run.allocate(0, DataType::int32, nullptr, 0, sizeof(std::int32_t))) {
    std::memcpy(functions().tensor_data(tensor), &values[index], sizeof(std::int32_t));
    functions().delete_tensor(tensor);
  }
}

/// Runs the body; nothing is thrown into TensorFlow.
template <typename Body>
void guarded(OpKernelContext* context, const Body& body) {
  Run run(context);
  try {
    body(run);
  } catch (const std::bad_alloc&) {
    run.fail(Code::resource_exhausted, "there is not enough memory for what Ronde was asked to do");
  } catch (const std::exception& error) {
    run.fail(Code::internal, std::string("unexpected in Ronde: ") + error.what());
  }
  run.finish();
}

void* create_with_attributes(OpKernelConstruction* construction) {
  std::optional<Attributes> attributes = read_attributes(construction);
  return attributes ? new (std::nothrow) Attributes(std::move(*attributes)) : nullptr;
}
void destroy_attributes(void* kernel) { delete static_cast<Attributes*>(kernel); }

void* create_topology(OpKernelConstruction* construction) {
  const std::optional<std::int64_t> what = read_integer(construction, "what");
  return what ? new (std::nothrow) std::int64_t(*what) : nullptr;
}
void destroy_topology(void* kernel) { delete static_cast<std::int64_t*>(kernel); }

/// A name of kOfIteration, as the ranks meet by it. TensorFlow makes a frame's id of the names of the loops around it
/// and their iterations, so it is the same on all ranks.
std::string name_of_iteration(const std::string& name, OpKernelContext* context) {
  const std::uint64_t frame = functions().frame_id(context);
  return frame == 0
             ? name.substr(1)
             : name.substr(1) + "@loop-" + std::to_string(frame) + "/" + std::to_string(functions().iteration(context));
}

/// Empty where a name was to be said before, and was not.
std::optional<std::string> whole_name(const std::string& name, OpKernelContext* context) {
  if (name.starts_with(kOfIteration)) {
    return name_of_iteration(name, context);
  }
  const char* const said = take_name();
  return said == nullptr ? std::nullopt : std::optional<std::string>(said);
}

template <void (*compute)(Run&, const Attributes&)>
void with_attributes(void* kernel, OpKernelContext* context) {
  const auto& attributes = *static_cast<const Attributes*>(kernel);
  guarded(context, [&](Run& run) {
    if (attributes.name != kNameFollows && !attributes.name.starts_with(kOfIteration)) {
      compute(run, attributes);
      return;
    }
    std::optional<std::string> name = whole_name(attributes.name, context);
    if (!name) {
      run.fail(Code::internal, "the name of a request of Ronde was said in another thread than the one that makes it");
      return;
    }
    Attributes named = attributes;
    named.name = std::move(*name);
    compute(run, named);
  });
}
template <void (*compute)(Run&)>
void without_attributes(void* /*kernel*/, OpKernelContext* context) {
  guarded(context, [](Run& run) { compute(run); });
}
void topology(void* kernel, OpKernelContext* context) {
  guarded(context, [&](Run& run) { compute_topology(run, *static_cast<const std::int64_t*>(kernel)); });
}

std::string register_kernel(const char* op, void* (*create)(OpKernelConstruction*),
                            void (*compute)(void*, OpKernelContext*), void (*destroy)(void*)) {
  ScopedStatus status;
  KernelBuilder* builder = functions().new_kernel_builder(op, "CPU", create, compute, destroy);
  functions().register_kernel_builder(op, builder, status.get());
  return status.is_ok() ? "" : std::string("TensorFlow refuses the kernel of ") + op + ": " + status.message();
}

}  // namespace

std::string register_kernels() {
  const std::string problems[] = {
      register_kernel(kStart, create_with_attributes, with_attributes<compute_start>, destroy_attributes),
      register_kernel(kStartRows, create_with_attributes, with_attributes<compute_start_rows>, destroy_attributes),
      register_kernel(kDone, nullptr, without_attributes<compute_done>, nullptr),
      register_kernel(kDoneRows, nullptr, without_attributes<compute_done_rows>, nullptr),
      register_kernel(kTopology, create_topology, topology, destroy_topology),
  };
  for (const std::string& problem : problems) {
    if (!problem.empty()) {
      return problem;
    }
  }
  return {};
}

}  // namespace ronde::tf
