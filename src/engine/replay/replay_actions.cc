#include "engine/replay/replay_actions.h"

#include <algorithm>

#include "base/stable_hash.h"

namespace ronde::engine {

// ---- Instances

void ReplayActions::copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t) {
  BucketRun& run = state_.runs[bucket];
  if (run.begin_watch()) {
    state_.watch.add(bucket);
  }
  TicketPtr& ticket = run.tickets()[place];
  if (!ticket) {  // it is an unnamed call, or comes from negotiation
    const std::string& name = member_.request_in(bucket, place);
    ticket = placing_ && placing_->name() == name ? placing_ : pending_.find(name);
  }
  const bool is_alone = run.tickets().size() == 1;
  run.copy_in(place, !is_alone && !member_.is_half_full(bucket), clock_);
  if (!is_alone && ticket->on_done()) {  // nobody will wait for it, but somebody wants to hear
    state_.watch.look_soon();
  }
  if (state_.watch.begin()) {  // from now on clocks are watched
    state_.outbox.call();
  }
}

void ReplayActions::publish(std::uint32_t bucket, agreement::Flag flag) {
  BucketRun& run = state_.runs[bucket];
  const bool is_plain = run.is_plain();
  const std::uint64_t calls = is_plain ? 0 : calls_in(bucket);
  run.publish(calls, clock_);
  if (is_observed_) {
    run.observed().published(clock_.now());
  }
  if (!is_plain && member_.is_ordered()) {
    send_full(bucket, flag, calls);
    return;
  }
  state_.runs.published(bucket);
}

/// The log launches it.
void ReplayActions::send_full(std::uint32_t bucket, agreement::Flag flag, std::uint64_t calls) {
  state_.outbox.send(
      control::FullMessage{member_.epoch(), bucket, agreement::instance_in(flag, member_.epoch()), calls});
}

/// Stands for the unnamed calls in the bucket, and for the ends that they are behind where planning names do not tell
/// these apart; 0 if there are none. Ranks whose calls differ have the same by a chance of one in 2^64.
std::uint64_t ReplayActions::calls_in(std::uint32_t bucket) const {
  std::uint64_t calls = 0;
  const std::vector<BucketMember>& members = member_.bucket(bucket).members;
  for (std::uint32_t place = 0; place < members.size(); ++place) {
    if (members[place].is_unnamed()) {
      calls = mix(calls ^ stable_hash(member_.request_in(bucket, place)));
      const TicketPtr& ticket = state_.runs[bucket].tickets()[place];
      if (ticket && is_behind_other(ticket->request().tag)) {
        calls = mix(calls ^ static_cast<std::uint64_t>(ticket->request().tag));
      }
    }
  }
  return calls;
}

void ReplayActions::complete(std::uint32_t bucket, std::uint64_t) {
  BucketRun& run = state_.runs[bucket];
  run.complete(state_.completed);
  // One thread at a time adds: no need to lock the bus.
  state_.counters.instances.store(state_.counters.instances.load(std::memory_order_relaxed) + 1,
                                  std::memory_order_relaxed);
  state_.counters.direct_bytes.store(state_.counters.direct_bytes.load(std::memory_order_relaxed) + run.direct_bytes(),
                                     std::memory_order_relaxed);
}

void ReplayActions::voided(std::uint32_t bucket) {
  state_.runs[bucket].drop_tickets();
  state_.counters.voided.fetch_add(1, std::memory_order_relaxed);
}

void ReplayActions::set_observed(bool is_observed) {
  is_observed_ = is_observed;
  for (const std::unique_ptr<BucketRun>& run : state_.runs.all()) {
    if (run) {
      run->observed().forget();
    }
  }
}

// ---- To the coordinator, and what it says

Nanoseconds ReplayActions::send_request(control::RequestMessage message, Nanoseconds deadline) {
  if (is_withdrawn(message.descriptor.memory_place, message.descriptor)) {
    message.descriptor.memory_place = {};  // it was described before that
  }
  if (const TicketPtr ticket = pending_.find(message.name)) {
    if (deadline == kNever) {  // it was placed without looking at the clock
      deadline = std::min(ticket->deadline(), later(clock_.now(), ticket->request().timeout));
    }
    if (ticket->request().call_site != nullptr) {
      message.call_site = *ticket->request().call_site;
    }
    if (ticket->request().kind == OpKind::barrier || ticket->request().has_own_number) {
      message.call_number = ticket->request().call_number;
    }
    message.descriptor.tag = ticket->request().tag;  // one that was placed has the descriptor that was planned
    if (!message.planning_name.empty()) {
      message.position = ticket->asked_at(message.position);
    }
    message.timeout = ticket->request().timeout;  // the whole; what is left of it is known when it is sent
  }
  state_.outbox.send(std::move(message), deadline);
  return deadline;
}

/// Every rank does this at the same position of the log. A bucket goes by the row under which it was prepared for as
/// long as it lives; what buckets have in common takes another one at INSTALL only, when none is under way (install()).
void ReplayActions::table(const Thresholds& thresholds) {
  table_ = thresholds;
  state_.outbox.agree(thresholds);
}

/// What the log has told, else what all began with.
Thresholds ReplayActions::in_force() const { return table_ ? *table_ : backend_.first_thresholds(); }

// ---- Buckets and epochs

void ReplayActions::prepare(const Bucket& bucket) {
  std::unique_ptr<BucketRun> run = make_ready(bucket);
  const bool is_refused = run == nullptr;
  state_.runs.add(bucket.id, std::move(run));
  state_.outbox.send(control::PreparedMessage{bucket.id, is_refused});
}

/// Null: refused.
std::unique_ptr<BucketRun> ReplayActions::make_ready(const Bucket& bucket) {
  Result<std::unique_ptr<PersistentCollective>> made = backend_.prepare(bucket, in_force());
  return made ? std::make_unique<BucketRun>(std::move(*made), bucket, member_.is_ordered()) : nullptr;
}

void ReplayActions::install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) {
  // Before an INSTALL every rank has finished what was decided in the epoch before, and nobody begins anything until
  // all have read the entry.
  if (!added) {
    backend_.begin_epoch(in_force());
  }
  state_.runs.enter(epoch, buckets);
  state_.watch.reserve(state_.runs.all().size());
  state_.watch.look_at_once();
  state_.counters.installs.fetch_add(1, std::memory_order_relaxed);
}

void ReplayActions::ended(std::uint32_t) {
  state_.runs.leave();
  state_.counters.breaks.fetch_add(1, std::memory_order_relaxed);
}

void ReplayActions::retire(std::uint32_t bucket) {
  if (!state_.runs.remove(bucket)) {
    return;  // refused here; the coordinator has freed it
  }
  state_.watch.remove(bucket);
  state_.outbox.send(control::FreeMessage{bucket});
}

// ---- Breaks and ends

void ReplayActions::set_frozen(std::uint32_t epoch, agreement::Reason reason) {
  peers_.say_frozen(epoch, static_cast<std::uint32_t>(reason));
  state_.watch.begin();
  state_.outbox.call();
}

void ReplayActions::send_frozen(std::uint32_t epoch, agreement::Reason) {
  state_.outbox.send(control::FrozenMessage{epoch});
  state_.watch.begin();
}

}  // namespace ronde::engine
