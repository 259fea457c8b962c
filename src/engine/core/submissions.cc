#include "engine/core/submissions.h"

#include <new>
#include <utility>

namespace ronde::engine {

namespace {

Status no_memory(const Ticket& ticket) {
  return Status::error(Code::out_of_memory, "no memory left to submit '" + ticket.name() + "'")
      .with_tensor(ticket.name());
}

}  // namespace

Status Submissions::check(const Request& request) const {
  RONDE_RETURN_IF_ERROR(validate(request, group_, own_rank_));
  if (is_pairwise(request.kind)) {  // bytes are moved, whatever they mean, and by no backend
    return {};
  }
  for (const RequestTensor& pair : request.tensors) {
    Plan probe;
    probe.kind = request.kind;
    probe.reduce_op = request.reduce_op;
    probe.dtype = pair.input.dtype;
    probe.prescale = request.prescale;
    probe.postscale = request.postscale;
    if (Status supported = backend_.supports(probe); !supported) {
      return supported.with_tensor(request.name).with_context("'" + request.name + "'");
    }
  }
  return {};
}

Status Submissions::submit(const TicketPtr& ticket) {
  const OpKind kind = ticket->request().kind;
  const bool is_counted = !traits(kind).has_tensors;
  if (!is_counted && ticket->request().call_number != 0 && !is_pairwise(kind)) {
    return submit_call(ticket);
  }
  RONDE_RETURN_IF_ERROR(check(ticket->request()));  // first: what is wrong with the call, whatever else is true
  return submit_again(ticket);
}

/// Takes the ticket's name. What ends the count of unnamed calls does so each time that it is called; one that has been
/// refused counts for nobody, since the other ranks never hear of it. Without a name it is called after the count that
/// it ends.
Status Submissions::take_name(const TicketPtr& ticket) {
  const Request& request = ticket->request();
  if (traits(request.kind).has_tensors) {
    return pending_.insert(ticket);
  }
  std::lock_guard order(calls_mutex_);
  if (request.has_own_number) {
    ticket->name_by_order("noname." + std::string(op_name(request.kind)) + "." +
                          std::to_string(calls_.last_number() >> CallOrder::kCallBits));
  }
  RONDE_RETURN_IF_ERROR(pending_.insert(ticket));
  ticket->set_last_call(request.kind == OpKind::join ? calls_.last_number() : calls_.restart());
  return {};
}

/// The order in which these calls reach the member is the order of their planning names. A call that is refused here is
/// one that the other ranks make: they are told.
Status Submissions::submit_call(const TicketPtr& ticket) {
  if (Status refusal = check(ticket->request()); !refusal) {
    tell_refused(ticket->name(), refusal);
    return refusal;
  }
  RONDE_RETURN_IF_ERROR(inbox_.accepting(ticket->request()));
  std::lock_guard order(calls_mutex_);
  ticket->plan_as(planning_names_.of(ticket->request(), backend_.place_of(ticket->request())));
  RONDE_RETURN_IF_ERROR(pending_.insert(ticket));
  return hand_in(ticket);
}

void Submissions::refuse_call(std::uint64_t number, const std::string& why) {
  tell_refused(CallOrder::name_of(number), Status::error(Code::invalid_argument, why));
}

void Submissions::tell_refused(const std::string& name, const Status& refusal) {
  if (group_.size() > 1) {
    inbox_.add(control::RefusedMessage{name, refusal.message()});
  }
}

Status Submissions::resubmit(const TicketPtr& ticket, std::shared_ptr<void> owner) {
  RONDE_RETURN_IF_ERROR(inbox_.accepting(ticket->request()));
  RONDE_RETURN_IF_ERROR(take_name(ticket));
  ticket->set_owner(std::move(owner));
  return hand_in(ticket);
}

Status Submissions::submit_again(const TicketPtr& ticket) {
  RONDE_RETURN_IF_ERROR(inbox_.accepting(ticket->request()));
  RONDE_RETURN_IF_ERROR(take_name(ticket));
  return hand_in(ticket);
}

Status Submissions::submit_again(std::span<const TicketPtr> tickets, std::size_t& submitted) {
  submitted = 0;
  RONDE_RETURN_IF_ERROR(inbox_.accepting(tickets.front()->request()));
  constexpr std::size_t kAtOnce = 32;
  while (submitted < tickets.size()) {
    // Names first: the engine may not finish a ticket that is not known to be under way.
    Status taken;
    std::size_t count = 0;
    while (count < kAtOnce && submitted + count < tickets.size() && taken) {
      taken = pending_.insert(tickets[submitted + count]);
      count += taken ? 1 : 0;
    }
    const std::span<const TicketPtr> some = tickets.subspan(submitted, count);
    requests_.fetch_add(count, std::memory_order_relaxed);
    std::size_t placed = 0;
    Status handed_in;
    try {
      replay_.place(some, placed);
    } catch (const std::bad_alloc&) {
      handed_in = no_memory(*some[placed]);
    }
    submitted += placed;
    if (placed < count) {
      requests_.fetch_sub(count - placed, std::memory_order_relaxed);
      for (std::size_t i = placed; i < count; ++i) {
        if (handed_in) {
          handed_in = hand_in(some[i]);
          submitted += handed_in ? 1 : 0;
        } else {
          pending_.withdraw(*some[i], handed_in);
        }
      }
      RONDE_RETURN_IF_ERROR(handed_in);
    }
    RONDE_RETURN_IF_ERROR(taken);
  }
  return {};
}

Status Submissions::hand_in(const TicketPtr& ticket) {
  // Counted first, so that what is finished is never more.
  requests_.fetch_add(1, std::memory_order_relaxed);
  Status refused;
  try {
    const bool is_call = !ticket->request().planning_name.empty();
    const bool is_overtaking = is_call && inbox_.has_calls();
    if (!is_pairwise(ticket->request().kind) && !is_overtaking && replay_.place(ticket)) {
      return {};
    }
    if (is_call) {
      unwaited_calls_.add(ticket);
    }
    refused = inbox_.add(ticket);
    if (refused) {
      return {};
    }
  } catch (const std::bad_alloc&) {
    refused = no_memory(*ticket);
  }
  requests_.fetch_sub(1, std::memory_order_relaxed);
  pending_.withdraw(*ticket, refused);
  return refused;
}

void Submissions::restart_calls_at(std::uint64_t restarts) {
  std::lock_guard order(calls_mutex_);
  planning_names_.forget_last();
  calls_.restart_at(restarts);
}

}  // namespace ronde::engine
