// The handlers that XLA calls for the collectives of ronde.jax. They submit requests and return: a handler that waits
// takes one of XLA's few threads, and ranks whose threads all wait for different calls wait for ever.
#include <ronde/ronde.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "attributes.h"
#include "call.h"
#include "completions.h"
#include "context.h"
#include "executions.h"
#include "failures/failures.h"
#include "request.h"
#include "started.h"
#include "xla_ffi.h"

namespace ronde::jax {

namespace {

/// Calls under way in this process.
constinit std::atomic<std::int32_t> under_way = 0;

/// How long a call that is alone is waited for in XLA's thread, in seconds: less than two hand-overs between threads
/// take, and ranks that keep step need no longer.
constexpr double kPatience = 50e-6;

/// Much is better reduced by the thread that has begun: a hand-over in the middle costs what the other core has in its
/// caches. It is waited for longer, as long as something moves; ranks of JAX begin up to a millisecond apart. (161
/// gradients, 102 MB, two ranks on two busy cores: 1.09 to 1.13 times as long as from PyTorch; before 1.16 to 1.26.)
constexpr std::size_t kMuch = 1 << 20;
constexpr double kPatienceWithMuch = 1e-3;
constexpr double kLongest = 0.1;

XLA_FFI_Error_Code code_of(ronde_status status) {
  switch (status) {
    case RONDE_INVALID_ARGUMENT: return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    case RONDE_TIMED_OUT: return XLA_FFI_Error_Code_DEADLINE_EXCEEDED;
    case RONDE_OUT_OF_MEMORY: return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    default: return XLA_FFI_Error_Code_ABORTED;
  }
}

XLA_FFI_Error* error_for(const XLA_FFI_Api& api, const std::string& text, XLA_FFI_Error_Code code) {
  XLA_FFI_Error_Create_Args args{sizeof(args), nullptr, text.c_str(), code};
  return api.error_create(&args);
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

/// The request has ended and the engine thread has been there.
void release(Call* call) {
  const std::unique_ptr<Call> owned(call);
  under_way.fetch_sub(1, std::memory_order_relaxed);
  Executions::instance().end(call->run, call->ticket);
  ronde_release(call->ticket);
}

/// XLA has done with the call: who comes last, here or in the engine thread, frees.
void leave(Call* call) {
  Stage expected = Stage::open;
  if (!call->stage.compare_exchange_strong(expected, Stage::left_finished)) {
    release(call);
  }
}

/// XLA may come to no more ends of this execution, which has failed.
void abandon(std::int64_t run) {
  for (Call* const call : Started::instance().take(run)) {
    leave(call);
  }
}

/// The execution of this call has failed. Returns what XLA is to be told.
std::string fail(std::int64_t run, const std::string& error, ronde_status status) {
  // Of an execution's calls one fails, and the ranks cancel the others: that one is the error.
  const std::string told = Executions::instance().fail(run, error, status != RONDE_CANCELLED);
  abandon(run);
  return told;
}

/// What XLA is to be told of a request that has ended with this status; its results are in their places.
void finish(Call& call, ronde_status status) noexcept {
  Completion& completion = call.completion;
  try {
    completion.code = code_of(status);
    if (status != RONDE_OK) {
      completion.error = error_of(call.ticket, status);
    } else {
      completion.error = bring_results(call);
      completion.code = XLA_FFI_Error_Code_INVALID_ARGUMENT;
    }
    if (!completion.error.empty()) {
      completion.error = fail(call.run, completion.error, status);
    }
  } catch (...) {
    completion.error.assign("no memory");  // short enough to need none
  }
}

/// In the engine thread. The other calls of an execution are cancelled as soon as one has failed.
void note_failure(const Call& call, ronde_ticket* ticket, ronde_status status) noexcept {
  try {
    if (status != RONDE_OK) {
      Executions::instance().fail(call.run, error_of(ticket, status), status != RONDE_CANCELLED);
    }
  } catch (...) {
    return;  // without memory: whoever finishes the call does it
  }
}

extern "C" void on_done(void* user, ronde_ticket* ticket, ronde_status status) {
  auto* const call = static_cast<Call*>(user);
  note_failure(*call, ticket, status);
  const Stage before = call->stage.exchange(Stage::done);
  if (before == Stage::left_finished) {
    release(call);
  } else if (before == Stage::left_under_way) {
    later([call, status] {
      finish(*call, status);
      const Completion completion = std::move(call->completion);
      release(call);  // before XLA is told, so that the name is free for what it does next
      tell(completion);
    });
  }
}

bool is_much(const Call& call) {
  std::size_t bytes = 0;
  for (const Span& operand : call.operands) {
    bytes += operand.bytes;
  }
  return bytes >= kMuch;
}

/// Until it has ended, or the engine thread had better go on with it.
void wait_if_alone(const Call& call) {
  if (under_way.load(std::memory_order_relaxed) != 1) {
    ronde_wait(call.ticket, 0.0);
  } else if (is_much(call)) {
    ronde_wait_while_moving(call.ticket, kPatienceWithMuch, kLongest);
  } else {
    ronde_wait(call.ticket, kPatience);
  }
}

/// Does of a request under way what can be done now, in this thread, which is all there is to do on the rank that comes
/// last. If it has ended XLA goes on at once, else with a future.
XLA_FFI_Error* settle(XLA_FFI_CallFrame& frame, Call* call) {
  ronde_ticket* const ticket = call->ticket;
  wait_if_alone(*call);
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
    Stage expected = Stage::open;
    if (call->stage.compare_exchange_strong(expected, Stage::left_under_way)) {
      return nullptr;
    }  // else it has ended meanwhile: XLA has to be told by the future, which exists
  }
  const ronde_status status = ronde_wait(ticket, -1.0);  // it has ended: says how, and the name is free
  finish(*call, status);
  const Completion completion = std::move(call->completion);
  leave(call);
  if (frame.future != nullptr) {
    tell(completion);
    return nullptr;
  }
  return completion.error.empty() ? nullptr : error_for(*frame.api, completion.error, completion.code);
}

Token token_in(const XLA_FFI_Buffer& buffer) {
  if (spans_of(std::array<void*, 1>{const_cast<XLA_FFI_Buffer*>(&buffer)}.data(), 1).front().bytes != sizeof(Token)) {
    throw std::invalid_argument("ronde.jax: the call has no token: package and libronde_jax.so must be of one release");
  }
  Token token{};
  std::memcpy(&token, buffer.data, sizeof(token));
  return token;
}

/// Of programs that make the same calls one runs at a time, so what has not made all its calls, or has calls without an
/// end, is an earlier execution that XLA has given up, since a callback of Python's failed in it, say. Other ranks may
/// have made its other calls, which are not to meet those of this one.
void give_up_earlier(const Token& token) {
  const auto give_up = [](std::int64_t earlier) {
    Executions::instance().give_up(earlier);
    abandon(earlier);
  };
  if (const auto earlier = Executions::instance().enter(token.program, token.execution)) {
    give_up(*earlier);
  }
  for (const std::int64_t earlier : Started::instance().others_of(token.program, token.execution)) {
    give_up(earlier);
  }
}

/// Has the execution a number, which the first operation of a program gives it.
void open(Token& token) {
  if (token.execution == 0) {
    token.execution = Executions::next_run();
    give_up_earlier(token);
  }
}

/// The token of the call that gets this one, which also says to which execution it belongs.
Token next(const Token& before, Call* call) {
  static constinit std::atomic<std::uint64_t> calls = 0;
  Token token = before;
  token.call = 1 + calls.fetch_add(1, std::memory_order_relaxed);
  open(token);
  call->run = token.execution;
  return token;
}

/// Where the program of a call makes calls.
std::vector<Executions::Place> places_of(const Attributes& attributes) {
  const XLA_FFI_Array& said = attributes.integers("places");
  const std::span numbers(static_cast<const std::int64_t*>(said.data), said.size);
  std::vector<Executions::Place> places;
  for (std::size_t i = 0; i + 3 < numbers.size(); i += 4) {
    places.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3] != 0});
  }
  return places;
}

/// Numbers of the names that the caller has given in the program of a call.
std::span<const std::int64_t> given_in(const Attributes& attributes) {
  const XLA_FFI_Array& said = attributes.integers("given");
  return std::span(static_cast<const std::int64_t*>(said.data), said.size).subspan(1);
}

void abandon_all(const std::vector<std::int64_t>& runs) {
  for (const std::int64_t run : runs) {
    abandon(run);
  }
}

/// Why the call is not made; nullptr: it was.
XLA_FFI_Error* begin(XLA_FFI_CallFrame& frame, const Attributes& attributes, std::int64_t operands,
                     std::int64_t results, std::unique_ptr<Call>& call) {
  const std::vector<Executions::Place> places = places_of(attributes);
  const bool has_token = call->token.program != 0;
  if (!has_token) {
    call->run = Executions::next_run();  // the program's one call
  }
  const std::uint64_t program =
      has_token || places.empty() ? call->token.program : static_cast<std::uint64_t>(places.front().program);
  const auto group = static_cast<std::int32_t>(attributes.integer("group"));
  const Executions::Answer answer = Executions::instance().begin(
      {call->run, program, launch_of(frame), device_of(frame), places, given_in(attributes)}, group);
  abandon_all(answer.given_up);
  if (!answer.refusal.empty()) {
    abandon(call->run);
    return error_for(*frame.api, answer.refusal, XLA_FFI_Error_Code_ABORTED);
  }
  call->name += answer.suffix;
  const ronde_status status = submit(frame, attributes, operands, results, &on_done, call.get());
  if (status != RONDE_OK) {
    return error_for(*frame.api, fail(call->run, refusal(status), status), code_of(status));
  }
  under_way.fetch_add(1, std::memory_order_relaxed);
  try {
    Executions::instance().add(call->run, call->ticket);
  } catch (...) {  // XLA takes its memory back: the request must have ended before
    ronde_cancel(call->ticket);
    ronde_wait(call->ticket, -1.0);
    leave(call.release());
    throw;
  }
  return nullptr;
}

/// What XLA is told of exceptions.
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

std::unique_ptr<Call> call_of(const XLA_FFI_CallFrame& frame, const Attributes& attributes) {
  auto call = std::make_unique<Call>();
  call->completion.api = frame.api;
  call->name = attributes.text("name");
  return call;
}

/// A call in one operation.
XLA_FFI_Error* execute(XLA_FFI_CallFrame& frame) {
  return guarded(frame, [&]() -> XLA_FFI_Error* {
    const Attributes attributes(frame.attrs);
    auto call = call_of(frame, attributes);
    const std::int64_t tokens = attributes.integer("is_ordered") != 0 ? 1 : 0;
    if (frame.args.size < tokens || frame.rets.size < tokens) {
      throw std::invalid_argument("ronde.jax: this is no call in order");
    }
    if (tokens != 0) {
      call->token =
          next(token_in(*static_cast<const XLA_FFI_Buffer*>(frame.args.args[frame.args.size - 1])), call.get());
      const auto& after = *static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[frame.rets.size - 1]);
      std::memcpy(after.data, &call->token, sizeof(Token));
    }
    if (XLA_FFI_Error* const error = begin(frame, attributes, frame.args.size - tokens, frame.rets.size - tokens, call);
        error != nullptr) {
      return error;
    }
    return settle(frame, call.release());
  });
}

/// Submits the request and returns: the operands are the program's again, and nobody is waited for.
XLA_FFI_Error* start(XLA_FFI_CallFrame& frame) {
  return guarded(frame, [&]() -> XLA_FFI_Error* {
    if (frame.args.size < 1 || frame.rets.size != 1) {
      throw std::invalid_argument("ronde.jax: this is no start of a call");
    }
    const Attributes attributes(frame.attrs);
    auto made = call_of(frame, attributes);
    made->is_split = true;
    made->token = next(token_in(*static_cast<const XLA_FFI_Buffer*>(frame.args.args[frame.args.size - 1])), made.get());
    if (XLA_FFI_Error* const error = begin(frame, attributes, frame.args.size - 1, 0, made); error != nullptr) {
      return error;
    }
    Call* const call = made.release();
    const std::int64_t run = call->run;
    std::memcpy(static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[0])->data, &call->token, sizeof(Token));
    ronde_wait(call->ticket, 0.0);  // does what can be done now: the rank that comes last has its result before the end
    try {
      Started::instance().add(call);
    } catch (...) {
      leave(call);
      throw;
    }
    if (!Executions::instance().error_of(run).empty()) {
      abandon(run);  // it has failed meanwhile
    }
    return nullptr;
  });
}

/// Brings the results of the call whose start has given the token.
XLA_FFI_Error* end(XLA_FFI_CallFrame& frame) {
  return guarded(frame, [&]() -> XLA_FFI_Error* {
    if (frame.args.size != 1) {
      throw std::invalid_argument("ronde.jax: this is no end of a call");
    }
    auto results = spans_of(frame.rets.rets, frame.rets.size);
    const Token token = token_in(*static_cast<const XLA_FFI_Buffer*>(frame.args.args[0]));
    Call* const call = Started::instance().claim(token.call);
    if (call == nullptr) {
      const std::string error = Executions::instance().error_of(token.execution);
      return error_for(*frame.api, error.empty() ? "another call of this program has failed" : error,
                       XLA_FFI_Error_Code_ABORTED);
    }
    call->results = std::move(results);
    return settle(frame, call);
  });
}

/// Calls of the program may begin, several times from the token that this gives.
XLA_FFI_Error* begin_order(XLA_FFI_CallFrame& frame) {
  return guarded(frame, [&]() -> XLA_FFI_Error* {
    if (frame.args.size != 1 || frame.rets.size != 1) {
      throw std::invalid_argument("ronde.jax: this is no beginning of a program");
    }
    Token token = token_in(*static_cast<const XLA_FFI_Buffer*>(frame.args.args[0]));
    open(token);
    std::memcpy(static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[0])->data, &token, sizeof(token));
    return nullptr;
  });
}

/// All calls of the program have begun.
XLA_FFI_Error* finish_order(XLA_FFI_CallFrame& frame) {
  return guarded(frame, [&]() -> XLA_FFI_Error* {
    if (frame.args.size != 1 || frame.rets.size != 1) {
      throw std::invalid_argument("ronde.jax: this is no end of a program");
    }
    const Token token = token_in(*static_cast<const XLA_FFI_Buffer*>(frame.args.args[0]));
    std::memcpy(static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[0])->data, &token, sizeof(token));
    Executions::instance().leave(token.program, token.execution);
    return nullptr;
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

/// A call in one operation, for jax.ffi.register_ffi_target. Its attributes are those of `ronde_request`: integers op,
/// group, reduce_op, root, as_rank and as_size (-1: any), reals prescale and postscale, texts name and site, arrays of
/// integers splits and given, numbers of names that the program has given (one 0 in front of each), and places, where
/// the program makes calls: of each group it, its family, the program, and whether each execution makes a call there.
/// Operands are the inputs, results the outputs; a barrier passes its operands on. With the attribute is_ordered 1 in
/// place of 0 the last operand is the token of the start before, and the last result its own. Any thread of XLA's;
/// never waits for another rank, but for the question that follows a failure. Errors are returned, or come with the
/// future.
extern "C" RONDE_API XLA_FFI_Error* ronde_jax_collective(XLA_FFI_CallFrame* frame) {
  return ronde::jax::is_execution(*frame) ? ronde::jax::execute(*frame) : nullptr;
}

/// The start of a call, with the same attributes. Operands are the inputs and the token of the start before, the result
/// is its own token. Any thread of XLA's; never waits for another rank, but for the question that follows a failure.
extern "C" RONDE_API XLA_FFI_Error* ronde_jax_start(XLA_FFI_CallFrame* frame) {
  return ronde::jax::is_execution(*frame) ? ronde::jax::start(*frame) : nullptr;
}

/// The end of the call whose start has given the token, the one operand. Results are the outputs; those of a barrier
/// are its operands. Any thread of XLA's; never blocks. Errors are returned, or come with the future.
extern "C" RONDE_API XLA_FFI_Error* ronde_jax_end(XLA_FFI_CallFrame* frame) {
  return ronde::jax::is_execution(*frame) ? ronde::jax::end(*frame) : nullptr;
}

/// Before a loop whose condition makes calls, which cannot hand their tokens on: the one operand is the token, the result
/// the same with the number of this execution. Any thread of XLA's; never blocks.
extern "C" RONDE_API XLA_FFI_Error* ronde_jax_begin(XLA_FFI_CallFrame* frame) {
  return ronde::jax::is_execution(*frame) ? ronde::jax::begin_order(*frame) : nullptr;
}

/// All calls of the program have begun: the one that comes last has given the token, the one operand; the result is the
/// same. Any thread of XLA's; never blocks.
extern "C" RONDE_API XLA_FFI_Error* ronde_jax_done(XLA_FFI_CallFrame* frame) {
  return ronde::jax::is_execution(*frame) ? ronde::jax::finish_order(*frame) : nullptr;
}

/// As Failures::tell().
extern "C" RONDE_API ronde_status ronde_jax_failure(const char* text, char* message, size_t message_bytes,
                                                    std::int32_t* rank, char* tensor, size_t tensor_bytes) {
  return ronde::bindings::Failures::instance().tell(text, message, message_bytes, rank, tensor, tensor_bytes);
}
