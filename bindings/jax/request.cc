#include "request.h"

#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>

namespace ronde::jax {

namespace {

/// Of what the tensors of a call that is split lie apart in its memory: a line of the processor's.
constexpr std::size_t kApart = 64;

ronde_dtype dtype_of(XLA_FFI_DataType dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_PRED: return RONDE_BOOL;
    case XLA_FFI_DataType_S8: return RONDE_INT8;
    case XLA_FFI_DataType_S16: return RONDE_INT16;
    case XLA_FFI_DataType_S32: return RONDE_INT32;
    case XLA_FFI_DataType_S64: return RONDE_INT64;
    case XLA_FFI_DataType_U8: return RONDE_UINT8;
    case XLA_FFI_DataType_U16: return RONDE_UINT16;
    case XLA_FFI_DataType_U32: return RONDE_UINT32;
    case XLA_FFI_DataType_U64: return RONDE_UINT64;
    case XLA_FFI_DataType_F16: return RONDE_FLOAT16;
    case XLA_FFI_DataType_F32: return RONDE_FLOAT32;
    case XLA_FFI_DataType_F64: return RONDE_FLOAT64;
    case XLA_FFI_DataType_C64: return RONDE_COMPLEX64;
    case XLA_FFI_DataType_C128: return RONDE_COMPLEX128;
    case XLA_FFI_DataType_BF16: return RONDE_BFLOAT16;
    case XLA_FFI_DataType_F8E5M2: return RONDE_FLOAT8_E5M2;
    case XLA_FFI_DataType_F8E4M3FN: return RONDE_FLOAT8_E4M3;
    default: throw std::invalid_argument("ronde.jax: XLA's element type " + std::to_string(dtype) + " is not known");
  }
}

std::size_t bytes_of(const XLA_FFI_Buffer& buffer) {
  std::size_t bytes = ronde_dtype_bytes(dtype_of(buffer.dtype));
  for (std::int64_t i = 0; i < buffer.rank; ++i) {
    bytes *= static_cast<std::size_t>(buffer.dims[i]);
  }
  return bytes;
}

/// Of the buffers' shapes, in this memory.
std::vector<ronde_tensor> tensors_of(void* const* buffers, const std::vector<Span>& memory) {
  std::vector<ronde_tensor> tensors;
  tensors.reserve(memory.size() + 1);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    ronde_tensor tensor{};
    tensor.struct_size = sizeof(tensor);
    tensor.data = memory[i].data;
    tensor.shape = buffer.dims;
    tensor.ndim = static_cast<std::int32_t>(buffer.rank);
    tensor.dtype = dtype_of(buffer.dtype);
    tensors.push_back(tensor);
  }
  return tensors;
}

/// Results may have their operands' memory.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) {
    std::memcpy(to, from, bytes);
  }
}

/// Copies the operands to memory of the call's own.
void take_operands(Call* call) {
  const auto rounded = [](std::size_t bytes) { return (bytes + kApart - 1) / kApart * kApart; };
  std::size_t bytes = kApart;
  for (const Span& operand : call->operands) {
    bytes += rounded(operand.bytes);
  }
  call->memory = std::unique_ptr<std::byte[]>(new std::byte[bytes]);  // not zeroed, unlike make_unique's
  const auto address = reinterpret_cast<std::uintptr_t>(call->memory.get());
  std::byte* place = call->memory.get() + (rounded(address) - address);
  const bool is_read = call->op != RONDE_BROADCAST || call->is_root;
  for (Span& operand : call->operands) {
    if (is_read) {
      copy_bytes(place, operand.data, operand.bytes);
    }
    operand.data = place;
    place += rounded(operand.bytes);
  }
}

bool is_made_by_ticket(ronde_op op) {
  return op == RONDE_ALLGATHER || op == RONDE_ALLTOALL || op == RONDE_REDUCESCATTER;
}

std::string take_outputs(const Call& call) {
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    void* data = nullptr;
    const std::int64_t* shape = nullptr;
    std::int32_t ndim = 0;
    ronde_dtype dtype = RONDE_UINT8;
    if (ronde_ticket_output(call.ticket, i, &data, &shape, &ndim, &dtype) != RONDE_OK) {
      return ronde_last_error();
    }
    std::size_t bytes = ronde_dtype_bytes(dtype);
    for (std::int32_t d = 0; d < ndim; ++d) {
      bytes *= static_cast<std::size_t>(shape[d]);
    }
    if (bytes != call.results[i].bytes) {
      return "the ranks have sent " + std::to_string(bytes) + " bytes where the compiled program expects " +
             std::to_string(call.results[i].bytes) +
             ": in a compiled program the rows of every rank must be known when it is traced";
    }
    copy_bytes(call.results[i].data, data, bytes);
  }
  return {};
}

/// Of the job now. Throws std::invalid_argument where the program was traced for another rank, or another number of
/// them: it is kept over shutdown and init.
ronde_topology topology_for(const Attributes& attributes) {
  ronde_topology now{};
  now.struct_size = sizeof(now);
  if (ronde_get_topology(nullptr, &now) != RONDE_OK) {
    return now;  // the request says why it is refused
  }
  const std::int64_t rank = attributes.integer("as_rank");
  const std::int64_t size = attributes.integer("as_size");
  if ((rank >= 0 && rank != now.rank) || (size >= 0 && size != now.size)) {
    throw std::invalid_argument("'" + std::string(attributes.text("name")) +
                                "' is of a program that was traced in an earlier job, when this process was another "
                                "rank or there were more or fewer: trace it again, after jax.clear_caches()");
  }
  return now;
}

}  // namespace

std::vector<Span> spans_of(void* const* buffers, std::int64_t count) {
  std::vector<Span> spans;
  spans.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    spans.push_back({static_cast<std::byte*>(buffer.data), bytes_of(buffer)});
  }
  return spans;
}

ronde_status submit(const XLA_FFI_CallFrame& frame, const Attributes& attributes, std::int64_t operands,
                    std::int64_t results, ronde_done_fn on_done, Call* call) {
  call->op = static_cast<ronde_op>(attributes.integer("op"));
  const ronde_topology topology = topology_for(attributes);
  call->is_root = topology.rank == attributes.integer("root");
  call->operands = spans_of(frame.args.args, operands);
  const bool is_barrier = call->op == RONDE_BARRIER;
  std::vector<ronde_tensor> outputs;  // none: in place, or made by the ticket
  if (call->is_split) {
    take_operands(call);
  } else {
    call->results = spans_of(frame.rets.rets, results);
    if (!is_barrier && !is_made_by_ticket(call->op)) {
      outputs = tensors_of(frame.rets.rets, call->results);
    }
  }
  std::vector<ronde_tensor> inputs;
  static constexpr std::int64_t kOne = 1;
  if (is_barrier) {
    inputs.push_back({sizeof(ronde_tensor), &call->nothing, &kOne, 1, RONDE_INT32, RONDE_HOST, 0});
  } else {
    inputs = tensors_of(frame.args.args, call->operands);
  }
  const std::string_view site = attributes.text("site");
  const XLA_FFI_Array& splits = attributes.integers("splits");

  ronde_request request{};
  request.struct_size = sizeof(request);
  request.op = is_barrier ? RONDE_ALLREDUCE : call->op;
  request.group = static_cast<std::int32_t>(attributes.integer("group"));
  request.name = call->name.data();
  request.name_bytes = call->name.size();
  request.inputs = inputs.empty() ? nullptr : inputs.data();
  request.outputs = outputs.empty() ? nullptr : outputs.data();
  request.count = inputs.size();
  request.reduce_op = is_barrier ? RONDE_SUM : static_cast<ronde_reduce_op>(attributes.integer("reduce_op"));
  request.root = static_cast<std::int32_t>(attributes.integer("root"));
  request.prescale = attributes.real("prescale");
  request.postscale = attributes.real("postscale");
  if (splits.size > 1) {  // one number in front: there are no empty arrays here
    request.splits = static_cast<const std::int64_t*>(splits.data) + 1;
    request.splits_count = splits.size - 1;
  }
  request.on_done = on_done;
  request.user = call;
  if (!site.empty()) {
    ronde_call_site(site.data(), site.size(), &request.call_site);  // without it there is less to say, no more
  }
  return ronde_submit(nullptr, &request, &call->ticket);
}

std::string bring_results(const Call& call) {
  if (is_made_by_ticket(call.op)) {
    return take_outputs(call);
  }
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    const Span& result = call.results[i];
    if (call.op == RONDE_REDUCE && !call.is_root) {
      if (result.bytes > 0) {
        std::memset(result.data, 0, result.bytes);
      }
    } else if (call.is_split || call.op == RONDE_BARRIER) {
      if (i >= call.operands.size() || call.operands[i].bytes != result.bytes) {
        return "the start and the end of a call differ: package and libronde_jax.so must be of one release";
      }
      copy_bytes(result.data, call.operands[i].data, result.bytes);
    }
  }
  return {};
}

}  // namespace ronde::jax
