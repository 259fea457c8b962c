#include "starts.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "flights.h"

namespace ronde::tf {

namespace {

/// Extents of a tensor as the engine reads them.
using Extents = std::array<std::int64_t, 32>;

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

}  // namespace

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

}  // namespace ronde::tf
