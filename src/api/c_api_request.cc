// The C interface: requests and tickets.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "api/convert.h"
#include "api/guard.h"
#include "api/handles.h"
#include "engine/requests/callback_queue.h"
#include "types/call_sites.h"

using namespace ronde;       // NOLINT: this file is the seam of the whole project
using namespace ronde::api;  // NOLINT

namespace ronde::api {

Nanoseconds limit_from(double seconds) { return seconds < 0 ? kNever : from_seconds(seconds); }

Status wait(ronde_ticket& handle, double limit_s, double idle_s) {
  if (const std::shared_ptr<engine::Runner> runner = handle.runner.lock()) {
    RONDE_RETURN_IF_ERROR(runner->wait(*handle.ticket, {limit_from(limit_s), limit_from(idle_s)}));
  }
  if (!handle.ticket->is_done()) {
    return Status::error(Code::cancelled, "the engine has shut down");
  }
  return handle.ticket->status();
}

bool looked_at(const ronde_ticket& handle) {
  if (handle.ticket->is_done()) {
    handle.ticket->tell();
    return true;
  }
  if (const std::shared_ptr<engine::Runner> runner = handle.runner.lock()) {
    runner->want(*handle.ticket);
  }
  return false;
}

Status settle(ronde_ticket& handle) {
  if (const std::shared_ptr<engine::Runner> runner = handle.runner.lock()) {
    return runner->release(*handle.ticket);
  }
  return {};
}

namespace {

enum class Caller { goes_on, waits };

/// It ends the count of calls without a name, and is none of them.
bool ends_count(const ronde_request& request) { return request.op == RONDE_BARRIER || request.op == RONDE_JOIN; }

/// It pairs by the order of such calls. A send or recv without a name does not: not all ranks make it.
bool is_unnamed_call(const ronde_request& request) {
  return request.name == nullptr && !is_pairwise(static_cast<OpKind>(request.op)) && !ends_count(request);
}

/// A name that only this rank knows, for a send or recv without one.
std::string name_of_pair(OpKind kind) {
  static std::atomic<std::uint64_t> made{0};
  return std::string(op_name(kind)) + ".unnamed." + std::to_string(++made);
}

/// The number of an unnamed call, or of the one that the request belongs to; 0: neither. An unnamed call's is taken
/// before the request is looked at, since the other ranks may make the call.
Result<std::uint64_t> call_number_of(engine::Runner& runner, const ronde_request& request) {
  // Callers that were compiled before these members were there say a smaller size.
  std::uint64_t number = request.struct_size >= offsetof(ronde_request, taken) ? request.call_number : 0;
  std::uint64_t* const taken = request.struct_size >= sizeof(ronde_request) ? request.taken : nullptr;
  if (taken != nullptr) {
    *taken = 0;
  }
  if (number == 0 && is_unnamed_call(request)) {
    RONDE_ASSIGN_OR_RETURN(number, runner.take_call_number(request.group));
    if (taken != nullptr) {
      *taken = number;
    }
  }
  return number;
}

/// Of an unnamed call: it will not be made, and the ranks that make it are told why.
Status refuse(engine::Runner& runner, const ronde_request& request, std::uint64_t number, Status why) {
  if (is_unnamed_call(request)) {
    RONDE_RETURN_IF_ERROR(runner.refuse_call(request.group, number, why.message()));
  }
  return why;
}

Result<ronde_ticket*> submit(ronde_engine* engine, const ronde_request* request, Caller caller) {
  RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<engine::Runner> runner, runner_of(engine));
  RONDE_RETURN_IF_ERROR(check_request(request));
  RONDE_ASSIGN_OR_RETURN(const std::uint64_t number, call_number_of(*runner, *request));
  if (caller == Caller::waits && engine::Runner::in_callback()) {
    return refuse(*runner, *request, number,
                  Status::error(Code::would_deadlock, "a blocking call inside a completion callback; submit instead"));
  }
  Result<Request> read = request_from(request, *runner);
  if (!read) {
    return refuse(*runner, *request, number, read.status());
  }
  Request& value = *read;
  value.call_number = number;
  if (is_unnamed_call(*request)) {
    value.name = engine::CallOrder::name_of(number);
    value.has_own_number = true;
  } else if (request->name == nullptr && ends_count(*request)) {
    value.name = "noname";  // until the engine knows which it is
    value.has_own_number = true;
  } else if (request->name == nullptr) {
    value.name = name_of_pair(value.kind);
  }
  auto handle = std::make_unique<ronde_ticket>();
  handle->runner = runner;
  engine::DoneCallback on_done;
  if (request->on_done != nullptr) {
    on_done = [call = request->on_done, user = request->user, raw = handle.get()](const engine::TicketPtr&,
                                                                                  const Status& status) {
      struct Drop {
        ronde_ticket* handle;
        ~Drop() { handle->drop(); }
      } drop{raw};  // also if the caller's function throws
      call(user, raw, report(status));
    };
    handle->references = 2;
  }
  handle->ticket = std::make_shared<engine::Ticket>(std::move(value), std::move(on_done));
  RONDE_RETURN_IF_ERROR(caller == Caller::waits ? runner->submit_to_wait(handle->ticket)
                                                : runner->submit(handle->ticket));
  return handle.release();
}

}  // namespace

}  // namespace ronde::api

ronde_status ronde_call_site(const char* text, size_t bytes, int32_t* call_site) {
  return guarded([&]() -> Status {
    if (call_site == nullptr || (text == nullptr && bytes != 0)) {
      return null_argument(call_site == nullptr ? "call_site" : "text");
    }
    *call_site = number_of_call_site({text, bytes});
    return {};
  });
}

ronde_status ronde_call_number(ronde_engine* engine, int32_t group, uint64_t* number) {
  return guarded([&]() -> Status {
    if (number == nullptr) {
      return null_argument("number");
    }
    RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<engine::Runner> runner, runner_of(engine));
    RONDE_ASSIGN_OR_RETURN(*number, runner->take_call_number(group));
    return {};
  });
}

ronde_status ronde_refuse_call(ronde_engine* engine, int32_t group, uint64_t number, const char* why, size_t bytes) {
  return guarded([&]() -> Status {
    if (why == nullptr) {
      return null_argument("why");
    }
    RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<engine::Runner> runner, runner_of(engine));
    return runner->refuse_call(group, number, {why, bytes});
  });
}

ronde_status ronde_submit(ronde_engine* engine, const ronde_request* request, ronde_ticket** ticket) {
  return guarded([&]() -> Status {
    if (ticket == nullptr) {
      return null_argument("ticket");
    }
    RONDE_ASSIGN_OR_RETURN(*ticket, submit(engine, request, Caller::goes_on));
    return {};
  });
}

ronde_status ronde_execute(ronde_engine* engine, const ronde_request* request, double limit_s, ronde_ticket** ticket) {
  return guarded([&]() -> Status {
    if (ticket != nullptr) {
      *ticket = nullptr;
    }
    RONDE_ASSIGN_OR_RETURN(ronde_ticket* const handle, submit(engine, request, Caller::waits));
    Status status = wait(*handle, ticket != nullptr ? limit_s : -1.0);
    if (ticket != nullptr) {
      *ticket = handle;
      return status;
    }
    // A signal may have come just when another thread has ended the work.
    while (!handle->ticket->is_done() || status.code() == Code::interrupted) {
      status = wait(*handle, -1.0);
    }
    handle->drop();
    return status;
  });
}

ronde_status ronde_test(ronde_ticket* ticket, int32_t* done) {
  return guarded([&]() -> Status {
    if (ticket == nullptr || done == nullptr) {
      return null_argument(ticket == nullptr ? "ticket" : "done");
    }
    *done = looked_at(*ticket) ? 1 : 0;
    return {};
  });
}

ronde_status ronde_cancel(ronde_ticket* ticket) {
  return guarded([&]() -> Status {
    if (ticket == nullptr) {
      return null_argument("ticket");
    }
    const std::shared_ptr<engine::Runner> runner = ticket->runner.lock();
    return ticket->ticket->is_done() || !runner ? Status() : runner->cancel(ticket->ticket);
  });
}

ronde_status ronde_wait(ronde_ticket* ticket, double limit_s) {
  return guarded([&]() -> Status { return ticket == nullptr ? null_argument("ticket") : wait(*ticket, limit_s); });
}

ronde_status ronde_wait_while_moving(ronde_ticket* ticket, double idle_s, double limit_s) {
  return guarded(
      [&]() -> Status { return ticket == nullptr ? null_argument("ticket") : wait(*ticket, limit_s, idle_s); });
}

ronde_status ronde_wait_all(ronde_ticket* const* tickets, size_t count, double limit_s) {
  return guarded([&]() -> Status {
    if (tickets == nullptr && count > 0) {
      return null_argument("tickets");
    }
    const RealClock clock;
    const Nanoseconds until = later(clock.now(), limit_from(limit_s));
    Status first;
    for (size_t i = 0; i < count; ++i) {
      if (tickets[i] == nullptr) {
        return null_argument("a ticket");
      }
      const double left = until == kNever
                              ? -1.0
                              : std::max(0.0, static_cast<double>(until - clock.now()) / static_cast<double>(kSecond));
      Status status = wait(*tickets[i], left);
      if (!tickets[i]->ticket->is_done()) {
        return status;  // the wait itself ended: limit, signal
      }
      if (!status) {
        status = wait(*tickets[i], 0);  // or it did, just when the work has ended
      }
      if (first.is_ok()) {
        first = std::move(status);
      }
    }
    return first;
  });
}

ronde_status ronde_wait_any(ronde_ticket* const* tickets, size_t count, double limit_s, size_t* index) {
  return guarded([&]() -> Status {
    if (count == 0 || tickets == nullptr || index == nullptr) {
      return Status::error(Code::invalid_argument, "wait_any needs at least one ticket and a place for the index");
    }
    std::vector<engine::TicketPtr> all;
    std::shared_ptr<engine::Runner> runner;
    for (size_t i = 0; i < count; ++i) {
      if (tickets[i] == nullptr) {
        return null_argument("a ticket");
      }
      all.push_back(tickets[i]->ticket);
      if (const auto own = tickets[i]->runner.lock(); own && runner && own != runner) {
        return Status::error(Code::invalid_argument, "wait_any waits for tickets of one engine only");
      } else if (own) {
        runner = own;
      }
    }
    const auto done = std::find_if(all.begin(), all.end(), [](const auto& ticket) { return ticket->is_done(); });
    auto first = static_cast<std::size_t>(done - all.begin());
    if (done == all.end()) {
      if (!runner) {
        return Status::error(Code::cancelled, "the engine has shut down");
      }
      RONDE_RETURN_IF_ERROR(runner->wait_any(all, limit_from(limit_s), first));
    }
    *index = first;
    return wait(*tickets[first], -1.0);
  });
}

void ronde_callback_threw(ronde_ticket* ticket, const char* what) {
  static_cast<void>(guarded([&]() -> Status {
    if (ticket == nullptr || what == nullptr) {
      return Status::error(Code::invalid_argument, "a ticket and a text must be given");
    }
    const std::shared_ptr<ronde::engine::Runner> runner = ticket->runner.lock();
    ronde::engine::log_thrown(runner ? runner->engine().topology().rank : 0, ticket->ticket->name(), what);
    return {};
  }));
}

ronde_status ronde_release(ronde_ticket* ticket) {
  return guarded([&]() -> Status {
    if (ticket == nullptr) {
      return {};
    }
    RONDE_RETURN_IF_ERROR(settle(*ticket));
    if (!ticket->belongs_to_slot) {
      ticket->drop();
    }
    return {};
  });
}

ronde_status ronde_ticket_error(ronde_ticket* ticket, ronde_error_info* info) {
  return guarded([&]() -> Status {
    if (ticket == nullptr || info == nullptr || info->struct_size < sizeof(ronde_error_info)) {
      return Status::error(Code::invalid_argument, "ticket or info is null, or info.struct_size is not set");
    }
    if (!ticket->ticket->is_done()) {
      return Status::error(Code::invalid_argument, "the ticket is still under way");
    }
    fill(*info, ticket->ticket->status());
    return {};
  });
}

ronde_status ronde_ticket_output(ronde_ticket* ticket, size_t i, void** data, const int64_t** shape, int32_t* ndim,
                                 ronde_dtype* dtype) {
  return guarded([&]() -> Status {
    if (ticket == nullptr || !ticket->ticket->is_done() || !ticket->ticket->status()) {
      return Status::error(Code::invalid_argument, "the ticket is null, still under way, or has failed");
    }
    const Request& request = ticket->ticket->request();
    if (i >= request.tensors.size()) {
      return Status::error(Code::invalid_argument, "the request has " + std::to_string(request.tensors.size()) +
                                                       " outputs; there is no output " + std::to_string(i));
    }
    const Tensor& output = request.tensors[i].output;
    if (data != nullptr) {
      *data = output.data;
    }
    if (shape != nullptr) {
      *shape = output.shape.data();
    }
    if (ndim != nullptr) {
      *ndim = static_cast<int32_t>(output.shape.size());
    }
    if (dtype != nullptr) {
      *dtype = static_cast<ronde_dtype>(output.dtype);
    }
    return {};
  });
}

ronde_status ronde_ticket_source(ronde_ticket* ticket, int32_t* rank) {
  return guarded([&]() -> Status {
    if (ticket == nullptr || !ticket->ticket->is_done() || !ticket->ticket->status()) {
      return Status::error(Code::invalid_argument, "the ticket is null, still under way, or has failed");
    }
    if (rank == nullptr) {
      return null_argument("rank");
    }
    if (ticket->ticket->request().kind != OpKind::recv) {
      return Status::error(Code::invalid_argument, "only a recv has a source");
    }
    *rank = ticket->ticket->results().source();
    return {};
  });
}

ronde_status ronde_ticket_splits(ronde_ticket* ticket, const int64_t** splits, size_t* count) {
  return guarded([&]() -> Status {
    if (ticket == nullptr || !ticket->ticket->is_done() || !ticket->ticket->status()) {
      return Status::error(Code::invalid_argument, "the ticket is null, still under way, or has failed");
    }
    if (splits == nullptr || count == nullptr) {
      return null_argument(splits == nullptr ? "splits" : "count");
    }
    if (ticket->ticket->request().kind != OpKind::alltoall) {
      return Status::error(Code::invalid_argument, "only an alltoall has received splits");
    }
    *splits = ticket->ticket->results().received_splits().data();
    *count = ticket->ticket->results().received_splits().size();
    return {};
  });
}
