#include "engine/plans/agreed_plans.h"

#include <cstddef>
#include <iterator>
#include <utility>

#include "engine/plans/plan_runs.h"

namespace ronde::engine {

AgreedPlans::AgreedPlans(Context context)
    : context_(context),
      executor_(
          context.backend, [this](const PlanRun& run) { started(run); },
          [this](const PlanRun& run, const Status& status) { finished(run, status); },
          [this](std::uint32_t bucket) { context_.replay.launch(bucket); }) {}

Status AgreedPlans::add(const std::vector<control::ExecEntry::Item>& items) {
  Result<std::vector<TicketPtr>> tickets = tickets_of(items, context_.pending, context_.group, context_.peers.self());
  if (!tickets) {
    return tickets.status();
  }
  if (observer_ != nullptr) {
    const Nanoseconds now = context_.clock.now();
    observer_->batch(context_.group.id, now);
    for (const TicketPtr& ticket : tickets.value()) {
      if (!ticket->is_of_joined_rank()) {
        observer_->agreed(ticket->request(), now);
      }
    }
  }
  for (PlanRun& run : make_plan_runs(items, tickets.value(), settings_, context_.group)) {
    if (run.plan.members.size() > 1) {
      context_.counters.fused_tensors.fetch_add(run.plan.members.size(), std::memory_order_relaxed);
    }
    executor_.enqueue(std::move(run));
  }
  return {};
}

Progress AgreedPlans::advance(Nanoseconds now) {
  peers_gave_up_ |= executor_.running() != nullptr && context_.peers.has_any_given_up();
  return peers_gave_up_ ? Progress::idle : executor_.advance(now);
}

void AgreedPlans::started(const PlanRun& run) {
  if (observer_ == nullptr) {
    return;
  }
  for (const TicketPtr& ticket : run.owners) {
    if (!ticket->is_of_joined_rank()) {
      observer_->started(ticket->request(), run.plan, context_.clock.now());
    }
  }
}

void AgreedPlans::finished(const PlanRun& run, const Status& status) {
  peers_gave_up_ |= context_.peers.has_any_given_up();
  if (peers_gave_up_ && status) {
    abandoned_.push_back(run);  // what was read of such a peer may be another step's, or anything
    return;
  }
  Counters& counters = context_.counters;
  counters.plans.fetch_add(1, std::memory_order_relaxed);
  if (run.plan.kind == OpKind::allreduce) {
    Counters::add(counters.bytes_reduced, run.plan.bytes());
    if (run.plan.is_shared()) {
      counters.direct_bytes.fetch_add(run.plan.bytes(), std::memory_order_relaxed);
    }
  }
  for (const TicketPtr& ticket : run.owners) {
    if (observer_ != nullptr && !ticket->is_of_joined_rank()) {
      observer_->stopped(ticket->request(), context_.clock.now());
    }
    if (ticket->plans().finished(status)) {
      context_.replay.executed(ticket->name());
      context_.completion.finish(ticket, ticket->plans().status().with_tensor(ticket->name()));
    }
  }
}

void AgreedPlans::abandon() {
  const auto self = static_cast<std::size_t>(context_.peers.self());
  const PlanRun* const running = executor_.running();
  if (running != nullptr && running->plan.is_shared()) {
    for (const PlanMember& member : running->plan.members) {
      exposed_.push_back({static_cast<std::size_t>(member.places[self].output), member.output.bytes()});
    }
  }
  std::vector<PlanRun> runs = executor_.abandon();
  abandoned_.insert(abandoned_.end(), std::make_move_iterator(runs.begin()), std::make_move_iterator(runs.end()));
}

std::vector<TicketPtr> AgreedPlans::take_abandoned() {
  std::vector<TicketPtr> tickets;
  for (PlanRun& run : std::exchange(abandoned_, {})) {
    tickets.insert(tickets.end(), run.owners.begin(), run.owners.end());
  }
  return tickets;
}

}  // namespace ronde::engine
