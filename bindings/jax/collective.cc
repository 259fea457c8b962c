// What XLA calls for every collective of ronde.jax: its start, which submits a request, and its end, which brings the
// results. Neither waits: a handler that waits takes one of XLA's few threads, and ranks whose threads all wait for
// different calls wait for ever.
#include <ronde/ronde.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "attributes.h"
#include "calls.h"
#include "completions.h"
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

ronde_tensor tensor_of(const XLA_FFI_Buffer& buffer, void* data) {
  ronde_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.data = data;
  tensor.shape = buffer.dims;
  tensor.ndim = static_cast<std::int32_t>(buffer.rank);
  tensor.dtype = dtype_of(buffer.dtype);
  return tensor;
}

/// How long the end of a call that is alone waits in XLA's thread, in seconds: less than two hand-overs between threads
/// take, and ranks that keep step need no longer.
constexpr double kPatience = 50e-6;

/// Of what the calls of a request lie apart in their memory: a line of the processor's.
constexpr std::size_t kApart = 64;

XLA_FFI_Error_Code code_of(ronde_status status) {
  switch (status) {
    case RONDE_INVALID_ARGUMENT: return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    case RONDE_TIMED_OUT: return XLA_FFI_Error_Code_DEADLINE_EXCEEDED;
    case RONDE_OUT_OF_MEMORY: return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    default: return XLA_FFI_Error_Code_ABORTED;
  }
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

/// What is expected of the engine's tickets, whose results have no place before.
bool is_made_by_ticket(ronde_op op) {
  return op == RONDE_ALLGATHER || op == RONDE_ALLTOALL || op == RONDE_REDUCESCATTER;
}

/// Brings what the ticket has made to where XLA expects it. The text says what went wrong, if anything.
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

/// Brings the results of a request that has succeeded to where XLA expects them. The text says what went wrong, if
/// anything.
std::string bring_results(const Call& call) {
  if (is_made_by_ticket(call.op)) {
    return take_outputs(call);
  }
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    const Span& result = call.results[i];
    if (i >= call.tensors.size() || call.tensors[i].bytes != result.bytes) {
      return "the start and the end of a call differ; package and libronde_jax.so must be of one release";
    }
    if (call.op == RONDE_REDUCE && !call.is_root) {
      std::memset(result.data, 0, result.bytes);
    } else {
      copy_bytes(result.data, call.tensors[i].data, result.bytes);
    }
  }
  return {};
}

/// What XLA is to be told of a call that has been claimed and whose request has ended with this status; its results are
/// in their places.
void finish(Call& call, ronde_status status) noexcept {
  Calls::instance().remove(&call);
  Completion& completion = call.completion;
  try {
    completion.code = code_of(status);
    if (status == RONDE_OK) {
      completion.error = bring_results(call);
      completion.code = XLA_FFI_Error_Code_INVALID_ARGUMENT;
    } else {
      // Of a program's calls one fails, and the ranks cancel the others: that one is the error.
      const std::string cause = status == RONDE_CANCELLED ? Calls::instance().cause_of(call) : "";
      completion.error = cause.empty() ? error_of(call.ticket, status) : cause;
    }
  } catch (...) {
    completion.error.assign("no memory");  // short enough to need none
  }
  if (!completion.error.empty()) {
    Calls::instance().fail(call.token, completion.error);
  }
}

extern "C" void on_done(void* user, ronde_ticket* ticket, ronde_status status) {
  auto* const call = static_cast<Call*>(user);
  const Stage before = call->stage.exchange(Stage::done);
  if (before == Stage::left_finished) {
    const std::unique_ptr<Call> owned(call);
    ronde_release(ticket);
  } else if (before == Stage::left_under_way) {
    later([call, status] {
      const std::unique_ptr<Call> owned(call);
      finish(*call, status);
      ronde_release(call->ticket);  // before XLA is told, so that the name is free for what it does next
      tell(call->completion);
    });
  }
}

std::vector<Span> spans_of(void* const* buffers, std::int64_t count) {
  std::vector<Span> spans;
  spans.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    spans.push_back({static_cast<std::byte*>(buffer.data), bytes_of(buffer)});
  }
  return spans;
}

std::size_t rounded(std::size_t bytes) { return (bytes + kApart - 1) / kApart * kApart; }

/// Copies the operands to memory of the call's own.
void take_operands(Call* call, void* const* buffers, std::int64_t count) {
  call->tensors = spans_of(buffers, count);
  std::size_t bytes = 0;
  for (const Span& operand : call->tensors) {
    bytes += rounded(operand.bytes);
  }
  call->memory = Memory(bytes);
  const bool is_read = call->op != RONDE_BROADCAST || call->is_root;
  std::byte* place = call->memory.data();
  for (Span& tensor : call->tensors) {
    if (is_read) {
      copy_bytes(place, tensor.data, tensor.bytes);
    }
    tensor.data = place;
    place += rounded(tensor.bytes);
  }
}

/// The request's tensors: the shapes of these buffers, in the call's memory.
std::vector<ronde_tensor> tensors_of(const Call& call, void* const* buffers) {
  std::vector<ronde_tensor> tensors;
  tensors.reserve(call.tensors.size());
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    tensors.push_back(tensor_of(*static_cast<const XLA_FFI_Buffer*>(buffers[i]), call.tensors[i].data));
  }
  return tensors;
}

/// Hands the request in. The frame's last operand is the token. Throws std::exception where the frame is none of ours.
ronde_status submit(const XLA_FFI_CallFrame& frame, const Attributes& attributes, Call* call) {
  call->op = static_cast<ronde_op>(attributes.integer("op"));
  call->is_root = attributes.integer("is_root") != 0;
  take_operands(call, frame.args.args, frame.args.size - 1);
  const bool is_barrier = call->op == RONDE_BARRIER;
  auto inputs = is_barrier ? std::vector<ronde_tensor>() : tensors_of(*call, frame.args.args);
  static constexpr std::int64_t kOne = 1;
  if (is_barrier) {
    inputs.push_back({sizeof(ronde_tensor), &call->nothing, &kOne, 1, RONDE_INT32, RONDE_HOST, 0});
  }
  const std::string_view name = attributes.text("name");
  const std::string_view site = attributes.text("site");
  const XLA_FFI_Array& splits = attributes.integers("splits");

  ronde_request request{};
  request.struct_size = sizeof(request);
  request.op = is_barrier ? RONDE_ALLREDUCE : call->op;
  request.group = static_cast<std::int32_t>(attributes.integer("group"));
  request.name = name.data();
  request.name_bytes = name.size();
  request.inputs = inputs.empty() ? nullptr : inputs.data();
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
  return ronde_submit(nullptr, &request, &call->ticket);
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

XLA_FFI_Error* error_for(const XLA_FFI_Api& api, const std::string& text, XLA_FFI_Error_Code code) {
  XLA_FFI_Error_Create_Args args{sizeof(args), nullptr, text.c_str(), code};
  return api.error_create(&args);
}

Token token_in(const XLA_FFI_Buffer& buffer) {
  if (bytes_of(buffer) != sizeof(Token)) {
    throw std::invalid_argument("ronde.jax: the call has no token; package and libronde_jax.so must be of one release");
  }
  Token token{};
  std::memcpy(&token, buffer.data, sizeof(token));
  return token;
}

/// What XLA may throw at, and what it is told of that.
template <class Work>
XLA_FFI_Error* guarded(const XLA_FFI_CallFrame& frame, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return error_for(*frame.api, "no memory", XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
  } catch (const std::exception& error) {
    return error_for(*frame.api, error.what(), XLA_FFI_Error_Code_INVALID_ARGUMENT);
  }
}

/// Submits the request and returns: the operands are the program's again, and nobody is waited for.
XLA_FFI_Error* start(XLA_FFI_CallFrame& frame) {
  return guarded(frame, [&]() -> XLA_FFI_Error* {
    if (frame.args.size < 1 || frame.rets.size != 1) {
      throw std::invalid_argument("ronde.jax: this is no start of a call");
    }
    const auto& before = *static_cast<const XLA_FFI_Buffer*>(frame.args.args[frame.args.size - 1]);
    const auto& after = *static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[0]);
    const Attributes attributes(frame.attrs);
    auto call = std::make_unique<Call>(Calls::instance().next(token_in(before), attributes.text("name")));
    call->completion.api = frame.api;
    const Token token = call->token;
    const ronde_status status = submit(frame, attributes, call.get());
    if (status != RONDE_OK) {
      const std::string text = refusal(status);
      Calls::instance().fail(token, text);
      return error_for(*frame.api, text, code_of(status));
    }
    ronde_wait(call->ticket, 0.0);  // does what can be done now: the rank that comes last has its result before the end
    Calls::instance().add(call.release());
    std::memcpy(after.data, &token, sizeof(token));
    return nullptr;
  });
}

/// Does of a request under way what can be done now, in this thread, which is all there is to do on the rank that comes
/// last. If it has ended XLA goes on at once, else with a future.
XLA_FFI_Error* end(XLA_FFI_CallFrame& frame) {
  return guarded(frame, [&]() -> XLA_FFI_Error* {
    if (frame.args.size != 1) {
      throw std::invalid_argument("ronde.jax: this is no end of a call");
    }
    std::vector<Span> results = spans_of(frame.rets.rets, frame.rets.size);
    const Token token = token_in(*static_cast<const XLA_FFI_Buffer*>(frame.args.args[0]));
    Call* const call = Calls::instance().claim(token.call);
    if (call == nullptr) {
      return error_for(*frame.api, "another call of this program has failed", XLA_FFI_Error_Code_ABORTED);
    }
    call->results = std::move(results);
    ronde_ticket* const ticket = call->ticket;
    ronde_wait(ticket, Calls::instance().size() == 1 ? kPatience : 0.0);
    std::int32_t has_ended = 0;
    if (ronde_test(ticket, &has_ended) == RONDE_OK && has_ended == 0) {
      XLA_FFI_Future_Create_Args made{sizeof(made), nullptr, nullptr};
      if (XLA_FFI_Error* error = frame.api->future_create(&made); error != nullptr) {
        // XLA takes its memory back: the request must have ended before.
        ronde_cancel(ticket);
        finish(*call, ronde_wait(ticket, -1.0));
        leave(call);
        return error;
      }
      call->completion.future = made.future;
      frame.future = made.future;
      Stage expected = Stage::unclaimed;
      if (call->stage.compare_exchange_strong(expected, Stage::left_under_way)) {
        return nullptr;
      }  // else it has ended meanwhile: XLA has to be told by the future, which exists
    }
    finish(*call, ronde_wait(ticket, -1.0));  // it has ended: says how, and the name is free
    const Completion completion = std::move(call->completion);
    leave(call);
    if (frame.future != nullptr) {
      tell(completion);
      return nullptr;
    }
    return completion.error.empty() ? nullptr : error_for(*frame.api, completion.error, completion.code);
  });
}

/// Whether XLA executes the program, and does not only ask which version of its interface this handler is written for.
bool is_execution(const XLA_FFI_CallFrame& frame) {
  for (XLA_FFI_Extension_Base* each = frame.extension_start; each != nullptr; each = each->next) {
    if (each->type == XLA_FFI_Extension_Metadata) {  // asked once, at registration
      XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(each)->metadata;
      metadata->api_version.major_version = XLA_FFI_API_MAJOR;
      metadata->api_version.minor_version = XLA_FFI_API_MINOR;
      metadata->traits = 0;
      return false;
    }
  }
  return frame.stage == XLA_FFI_ExecutionStage_EXECUTE;
}

}  // namespace

}  // namespace ronde::jax

/// The start of a call, for jax.ffi.register_ffi_target. Its attributes are those of `ronde_request`: integers op,
/// group, reduce_op, root and is_root, reals prescale and postscale, texts name and site, integers splits (one 0 in
/// front). Operands are the inputs and the token of the start before, the result is its own token. Any thread of XLA's;
/// never waits for another rank. Errors are returned.
extern "C" RONDE_API XLA_FFI_Error* ronde_jax_start(XLA_FFI_CallFrame* frame) {
  return ronde::jax::is_execution(*frame) ? ronde::jax::start(*frame) : nullptr;
}

/// The end of the call whose start has given the token, the one operand. Results are the outputs; those of a barrier
/// are its operands. Any thread of XLA's; never blocks. Errors are returned, or come with the future.
extern "C" RONDE_API XLA_FFI_Error* ronde_jax_end(XLA_FFI_CallFrame* frame) {
  return ronde::jax::is_execution(*frame) ? ronde::jax::end(*frame) : nullptr;
}

/// As Failures::tell().
extern "C" RONDE_API ronde_status ronde_jax_failure(const char* text, char* message, size_t message_bytes,
                                                    std::int32_t* rank, char* tensor, size_t tensor_bytes) {
  return ronde::bindings::Failures::instance().tell(text, message, message_bytes, rank, tensor, tensor_bytes);
}
