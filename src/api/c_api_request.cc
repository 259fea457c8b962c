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
#include "types/call_sites.h"

using namespace ronde;       // NOLINT: this file is the seam of the whole project
using namespace ronde::api;  // NOLINT

namespace ronde::api {

Nanoseconds limit_from(double seconds) { return seconds < 0 ? kNever : from_seconds(seconds); }

Status wait(ronde_ticket& handle, double limit_s) {
  if (const std::shared_ptr<engine::Runner> runner = handle.runner.lock()) {
    RONDE_RETURN_IF_ERROR(runner->wait(*handle.ticket, limit_from(limit_s)));
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

std::uint64_t number_given(const ronde_request& from) {
  return from.struct_size >= sizeof(ronde_request) ? from.call_number : 0;
}

/// Gives a request without a name that of its number; a send or recv, which not all ranks make, one that only this rank
/// knows.
Status number_call(engine::Runner& runner, const ronde_request& from, Request& request) {
  request.call_number = number_given(from);
  if (from.name != nullptr) {
    return {};
  }
  if (is_pairwise(request.kind)) {
    static std::atomic<std::uint64_t> made{0};
    request.name = std::string(op_name(request.kind)) + ".unnamed." + std::to_string(++made);
    request.call_number = 0;
    return {};
  }
  if (request.call_number == 0) {
    RONDE_ASSIGN_OR_RETURN(request.call_number, runner.take_call_number(request.group));
  }
  request.name = engine::CallOrder::name_of(request.call_number);
  request.has_own_number = true;
  return {};
}

/// A call without a name whose request cannot be read counts nevertheless: the other ranks make it, and are told. Not
/// one of which not even that can be read; nor a barrier or a join, which are counted by themselves when they are made.
void refuse_unread(engine::Runner& runner, const ronde_request* from, const Status& why) {
  if (from == nullptr || from->struct_size < offsetof(ronde_request, call_number) || from->name != nullptr) {
    return;
  }
  const auto kind = static_cast<OpKind>(from->op);
  if (is_pairwise(kind) || kind == OpKind::barrier || kind == OpKind::join) {
    return;
  }
  Result<std::uint64_t> number = number_given(*from);
  if (number.value() == 0) {
    number = runner.take_call_number(from->group);
  }
  if (number) {  // else there is no such group, and nobody to be told
    static_cast<void>(runner.refuse_call(from->group, number.value(), why.message()));
  }
}

Result<ronde_ticket*> submit(ronde_engine* engine, const ronde_request* request, Caller caller) {
  RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<engine::Runner> runner, runner_of(engine));
  Result<Request> read = request_from(request, *runner);
  if (!read) {
    refuse_unread(*runner, request, read.status());
    return read.status();
  }
  Request value = std::move(read).value();
  RONDE_RETURN_IF_ERROR(number_call(*runner, *request, value));
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
    if (engine::Runner::in_callback()) {
      return Status::error(Code::would_deadlock, "a blocking call inside a completion callback; submit instead");
    }
    RONDE_ASSIGN_OR_RETURN(ronde_ticket* const handle, submit(engine, request, Caller::waits));
    Status status = wait(*handle, ticket != nullptr ? limit_s : -1.0);
    if (ticket != nullptr) {
      *ticket = handle;
      return status;
    }
    while (!handle->ticket->is_done()) {
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

ronde_status ronde_wait(ronde_ticket* ticket, double limit_s) {
  return guarded([&]() -> Status { return ticket == nullptr ? null_argument("ticket") : wait(*ticket, limit_s); });
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
    *rank = ticket->ticket->source();
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
    *splits = ticket->ticket->received_splits().data();
    *count = ticket->ticket->received_splits().size();
    return {};
  });
}
