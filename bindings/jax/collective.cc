// The handler that XLA calls for every collective of ronde.jax. It submits a request and returns: a handler that waits
// takes one of XLA's few threads, and ranks whose threads all wait for different calls wait for ever.
#include <ronde/ronde.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "attributes.h"
#include "completions.h"
#include "executions.h"
#include "failures/failures.h"
#include "xla_ffi.h"

namespace ronde::jax {

namespace {

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

ronde_tensor tensor_of(const XLA_FFI_Buffer& buffer) {
  ronde_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.data = buffer.data;
  tensor.shape = buffer.dims;
  tensor.ndim = static_cast<std::int32_t>(buffer.rank);
  tensor.dtype = dtype_of(buffer.dtype);
  return tensor;
}

/// Memory of XLA's: what the program reads, or is to read.
struct Span {
  void* data;
  std::size_t bytes;
};

/// Who does what is left to do at the end of a call.
enum class Stage {
  in_handler,      // the handler still looks at it
  left_under_way,  // the engine thread: XLA waits for a future
  left_finished,   // the engine thread, which only frees: XLA has its results
  done,            // the handler: the engine thread has been there
};

/// Calls under way in this process.
constinit std::atomic<std::int32_t> under_way = 0;

/// How long a call that is alone is waited for in XLA's thread, in seconds: less than two hand-overs between threads
/// take, and ranks that keep step need no longer.
constexpr double kPatience = 50e-6;

/// A call under way: what is needed at its end.
struct Call {
  std::atomic<Stage> stage = Stage::in_handler;
  Completion completion;
  std::optional<std::int64_t> run;  ///< the execution that it belongs to; none: XLA does not tell
  std::string name;
  ronde_op op = RONDE_ALLREDUCE;
  bool is_root = true;
  std::vector<Span> operands;
  std::vector<Span> results;
  /// What the ranks reduce in a barrier. An engine's own would begin a new count of the unnamed calls that the program
  /// makes beside.
  std::int32_t nothing = 0;
};

XLA_FFI_Error_Code code_of(ronde_status status) {
  switch (status) {
    case RONDE_INVALID_ARGUMENT: return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    case RONDE_TIMED_OUT: return XLA_FFI_Error_Code_DEADLINE_EXCEEDED;
    case RONDE_OUT_OF_MEMORY: return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    default: return XLA_FFI_Error_Code_ABORTED;
  }
}

/// Results may have their operands' memory.
void copy(const Span& to, const void* from) {
  if (to.bytes > 0 && to.data != from) {
    std::memcpy(to.data, from, to.bytes);
  }
}

/// Brings what the ticket has made to where XLA expects it. The text says what went wrong, if anything.
std::string take_outputs(const Call& call, ronde_ticket* ticket) {
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    void* data = nullptr;
    const std::int64_t* shape = nullptr;
    std::int32_t ndim = 0;
    ronde_dtype dtype = RONDE_UINT8;
    if (ronde_ticket_output(ticket, i, &data, &shape, &ndim, &dtype) != RONDE_OK) {
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
    copy(call.results[i], data);
  }
  return {};
}

/// What is known of a request that has failed with this status; it is kept for Python.
std::string error_of(ronde_ticket* ticket, ronde_status status) {
  ronde_error_info info{};
  info.struct_size = sizeof(info);
  const bool is_said =
      ronde_ticket_error(ticket, &info) == RONDE_OK && info.message != nullptr && *info.message != '\0';
  bindings::Failure failure =
      is_said ? bindings::failure_of(info)
              : bindings::Failure{status, std::string("the request failed: ") + ronde_status_name(status), "", -1};
  bindings::Failures::instance().keep(failure);
  return failure.message;
}

/// What XLA is to be told of a request that has ended with this status; its results are in their places.
void finish(Call& call, ronde_ticket* ticket, ronde_status status) noexcept {
  under_way.fetch_sub(1, std::memory_order_relaxed);
  Completion& completion = call.completion;
  const struct End {
    Call& call;
    ronde_ticket* ticket;
    ~End() {
      if (call.run) {
        Executions::instance().end(*call.run, ticket, !call.completion.error.empty());
      }
    }
  } end{call, ticket};
  try {
    completion.code = code_of(status);
    if (status != RONDE_OK) {
      completion.error = error_of(ticket, status);
    } else if (call.op == RONDE_BARRIER) {
      for (std::size_t i = 0; i < call.results.size(); ++i) {
        copy(call.results[i], call.operands[i].data);
      }
    } else if (call.op == RONDE_REDUCE && !call.is_root) {
      for (const Span& result : call.results) {
        if (result.bytes > 0) {
          std::memset(result.data, 0, result.bytes);
        }
      }
    } else if (call.op == RONDE_ALLGATHER || call.op == RONDE_ALLTOALL || call.op == RONDE_REDUCESCATTER) {
      completion.error = take_outputs(call, ticket);
      completion.code = XLA_FFI_Error_Code_INVALID_ARGUMENT;
    }
  } catch (...) {
    completion.error.assign("no memory");  // short enough to need none
  }
}

extern "C" void on_done(void* user, ronde_ticket* ticket, ronde_status status) {
  auto* const call = static_cast<Call*>(user);
  const Stage before = call->stage.exchange(Stage::done);
  if (before == Stage::in_handler) {
    return;  // the handler does the rest
  }
  const std::unique_ptr<Call> owned(call);
  if (before == Stage::left_under_way) {
    finish(*call, ticket, status);
  }
  ronde_release(ticket);  // before XLA is told, so that the name is free for what it does next
  if (before == Stage::left_under_way) {
    tell_later(std::move(call->completion));
  }
}

std::vector<Span> spans_of(void* const* buffers, std::int64_t count) {
  std::vector<Span> spans;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    spans.push_back({buffer.data, bytes_of(buffer)});
  }
  return spans;
}

std::vector<ronde_tensor> tensors_of(void* const* buffers, std::int64_t count) {
  std::vector<ronde_tensor> tensors;
  for (std::int64_t i = 0; i < count; ++i) {
    tensors.push_back(tensor_of(*static_cast<const XLA_FFI_Buffer*>(buffers[i])));
  }
  return tensors;
}

/// Hands the request in. Throws std::exception where the frame is none of ours.
ronde_status submit(const XLA_FFI_CallFrame& frame, Call* call, ronde_ticket** ticket) {
  const Attributes attributes(frame.attrs);
  call->op = static_cast<ronde_op>(attributes.integer("op"));
  call->operands = spans_of(frame.args.args, frame.args.size);
  call->results = spans_of(frame.rets.rets, frame.rets.size);
  call->is_root = attributes.integer("is_root") != 0;
  const bool is_barrier = call->op == RONDE_BARRIER;
  const bool has_places = call->op == RONDE_ALLREDUCE || call->op == RONDE_BROADCAST || call->op == RONDE_REDUCE;
  auto inputs = tensors_of(frame.args.args, is_barrier ? 0 : frame.args.size);
  const auto outputs = tensors_of(frame.rets.rets, has_places ? frame.rets.size : 0);
  static constexpr std::int64_t kOne = 1;
  if (is_barrier) {
    inputs.push_back({sizeof(ronde_tensor), &call->nothing, &kOne, 1, RONDE_INT32, RONDE_HOST, 0});
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
  request.on_done = &on_done;
  request.user = call;
  if (!site.empty()) {
    ronde_call_site(site.data(), site.size(), &request.call_site);  // without it there is less to say, no more
  }
  return ronde_submit(nullptr, &request, ticket);
}

/// What is known of a request that was not taken on; it is kept for Python.
std::string refusal(ronde_status status) {
  const bindings::Failure failure = bindings::last_failure(status);
  bindings::Failures::instance().keep(failure);
  std::string text = failure.message;
  if (status == RONDE_DUPLICATE_NAME) {
    text +=
        ". A compiled program makes this call twice at once, as where a jitted function without names of its own is "
        "called twice: pass name= to tell the calls apart, or let one depend on the other";
  }
  return text;
}

/// The handler has done with a request that has ended: who comes last frees.
void leave(Call* call, ronde_ticket* ticket) {
  Stage expected = Stage::in_handler;
  if (!call->stage.compare_exchange_strong(expected, Stage::left_finished)) {
    const std::unique_ptr<Call> owned(call);
    ronde_release(ticket);
  }
}

XLA_FFI_Error* error_for(const XLA_FFI_Api& api, const std::string& text, XLA_FFI_Error_Code code) {
  XLA_FFI_Error_Create_Args args{sizeof(args), nullptr, text.c_str(), code};
  return api.error_create(&args);
}

/// The request is under way: does of it what can be done now, in this thread, which is all there is to do on the rank
/// that comes last. If it has ended XLA goes on at once, else with a future. `is_alone`: no other call is under way.
XLA_FFI_Error* look_once(XLA_FFI_CallFrame& frame, Call* call, ronde_ticket* ticket, bool is_alone) {
  ronde_status status = ronde_wait(ticket, is_alone ? kPatience : 0.0);
  std::int32_t has_ended = 0;
  if (ronde_test(ticket, &has_ended) == RONDE_OK && has_ended == 0) {
    XLA_FFI_Future_Create_Args made{sizeof(made), nullptr, nullptr};
    if (XLA_FFI_Error* error = frame.api->future_create(&made); error != nullptr) {
      // XLA takes its memory back: the request must have ended before.
      ronde_cancel(ticket);
      finish(*call, ticket, ronde_wait(ticket, -1.0));
      leave(call, ticket);
      return error;
    }
    call->completion.future = made.future;
    Stage expected = Stage::in_handler;
    if (call->stage.compare_exchange_strong(expected, Stage::left_under_way)) {
      frame.future = made.future;
      return nullptr;
    }
    frame.future = made.future;  // it has ended meanwhile: XLA has to be told by the future, which exists
  }
  status = ronde_wait(ticket, -1.0);  // it has ended: says how, and the name is free
  finish(*call, ticket, status);
  Completion completion = std::move(call->completion);
  leave(call, ticket);
  if (frame.future != nullptr) {
    tell(completion);
    return nullptr;
  }
  return completion.error.empty() ? nullptr : error_for(*frame.api, completion.error, completion.code);
}

/// None where XLA's interface is too old to tell.
std::optional<std::int64_t> run_of(const XLA_FFI_CallFrame& frame) {
  const XLA_FFI_Api& api = *frame.api;
  if (api.struct_size < offsetof(XLA_FFI_Api, run_id_get) + sizeof(api.run_id_get) || api.run_id_get == nullptr) {
    return std::nullopt;
  }
  XLA_FFI_RunId_Get_Args asked{sizeof(asked), nullptr, frame.ctx, 0};
  if (XLA_FFI_Error* const error = api.run_id_get(&asked); error != nullptr) {
    XLA_FFI_Error_Destroy_Args destroyed{sizeof(destroyed), nullptr, error};
    api.error_destroy(&destroyed);
    return std::nullopt;
  }
  return asked.run_id;
}

XLA_FFI_Error* execute(XLA_FFI_CallFrame& frame) {
  try {
    auto call = std::make_unique<Call>();
    call->completion.api = frame.api;
    call->run = run_of(frame);
    const Attributes attributes(frame.attrs);
    call->name = attributes.text("name");
    if (call->run) {
      const Executions::Answer answer =
          Executions::instance().begin(*call->run, static_cast<std::int32_t>(attributes.integer("group")));
      if (!answer.refusal.empty()) {
        return error_for(*frame.api, "'" + call->name + "': " + answer.refusal, XLA_FFI_Error_Code_ABORTED);
      }
      call->name += answer.suffix;
    }
    ronde_ticket* ticket = nullptr;
    const ronde_status status = submit(frame, call.get(), &ticket);
    if (status != RONDE_OK) {
      const std::string text = refusal(status);
      if (call->run) {
        Executions::instance().fail(*call->run);
      }
      return error_for(*frame.api, text, code_of(status));
    }
    if (call->run) {
      Executions::instance().add(*call->run, ticket);
    }
    const bool is_alone = under_way.fetch_add(1, std::memory_order_relaxed) == 0;
    return look_once(frame, call.release(), ticket, is_alone);
  } catch (const std::bad_alloc&) {
    return error_for(*frame.api, "no memory", XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
  } catch (const std::exception& error) {
    return error_for(*frame.api, error.what(), XLA_FFI_Error_Code_INVALID_ARGUMENT);
  }
}

}  // namespace

}  // namespace ronde::jax

/// The handler, for jax.ffi.register_ffi_target. Its attributes are those of `ronde_request`: integers op, group,
/// reduce_op, root and is_root, reals prescale and postscale, texts name and site, integers splits (one 0 in front).
/// Operands are the inputs, results the outputs; a barrier passes its operands on. Any thread of XLA's; never blocks.
/// Errors are returned, or come with the future.
extern "C" RONDE_API XLA_FFI_Error* ronde_jax_collective(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* each = frame->extension_start; each != nullptr; each = each->next) {
    if (each->type == XLA_FFI_Extension_Metadata) {  // asked once, at registration
      XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(each)->metadata;
      metadata->api_version.major_version = XLA_FFI_API_MAJOR;
      metadata->api_version.minor_version = XLA_FFI_API_MINOR;
      metadata->traits = 0;
      return nullptr;
    }
  }
  return frame->stage == XLA_FFI_ExecutionStage_EXECUTE ? ronde::jax::execute(*frame) : nullptr;
}

/// As Failures::tell().
extern "C" RONDE_API ronde_status ronde_jax_failure(const char* text, char* message, size_t message_bytes,
                                                    std::int32_t* rank, char* tensor, size_t tensor_bytes) {
  return ronde::bindings::Failures::instance().tell(text, message, message_bytes, rank, tensor, tensor_bytes);
}
