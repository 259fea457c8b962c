#include "engine/replay/replay.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace ronde::engine {

namespace {

using Locked = std::lock_guard<SpinLock>;

/// Of many, so many tickets are placed under one hold of the gate, or so many bytes of them, which are copied in: some
/// microseconds.
constexpr std::size_t kPlacedAtOnce = 32;
constexpr std::size_t kBytesAtOnce = 64 << 10;
/// After a request's time was up, so long for a break to end: then a rank is stopped, and no common point is left.
constexpr Nanoseconds kBreakGrace = 5 * kSecond;
constexpr int kCoordinatorMember = 0;

}  // namespace

Replay::Replay(Group group, backend::Backend& backend, transport::Peers& peers, Deaths& deaths,
               const PendingTable& pending, const Clock& clock)
    : backend_(backend),
      peers_(peers),
      clock_(clock),
      group_id_(group.id),
      member_(std::move(group), peers.self()),
      actions_(member_, state_, backend, peers, deaths, pending, clock) {}

// ---- Submitting

bool Replay::place(const TicketPtr& ticket) {
  if (!runs().replays()) {
    return false;
  }
  if (!ticket->request().planning_name.empty()) {
    return place_call(ticket);
  }
  std::optional<Descriptor> descriptor;
  if (ticket->place().epoch == 0) {
    descriptor = described(ticket->request());
  }
  Locked gate(gate_);
  return place_under_gate(ticket, descriptor);
}

void Replay::place(std::span<const TicketPtr> tickets, std::size_t& placed) {
  placed = 0;
  while (placed < tickets.size() && runs().replays()) {
    Locked gate(gate_);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < kPlacedAtOnce && bytes < kBytesAtOnce && placed < tickets.size(); ++i, ++placed) {
      std::optional<Descriptor> descriptor;
      if (!place_under_gate(tickets[placed], descriptor)) {
        return;
      }
      bytes += tickets[placed]->input_bytes();
    }
  }
}

/// `descriptor` may be made before the gate is taken, which makes its time under it shorter.
bool Replay::place_under_gate(const TicketPtr& ticket, std::optional<Descriptor>& descriptor) {
  if (member_.mode() != agreement::Mode::replay) {
    return false;
  }
  if (ticket->place().epoch != member_.epoch()) {
    if (!descriptor) {
      descriptor = described(ticket->request());
    }
    if (!find_place(*ticket, *descriptor)) {
      return false;
    }
  }
  const Ticket::Place at = ticket->place();
  struct Held {
    TicketPtr& ticket;
    agreement::Lane lane = agreement::Lane::none;
    ~Held() {
      if (lane != agreement::Lane::placed) {
        ticket.reset();
      }
    }
  } held{runs()[at.bucket].tickets()[at.place]};
  held.ticket = ticket;
  held.lane = step(agreement::SubmitPlace{at.bucket, at.place, 0, kNever, ticket->place().memory_place});
  return true;
}

bool Replay::find_place(Ticket& ticket, const Descriptor& descriptor) {
  const auto where = member_.where(ticket.name());
  if (!where || !fits(member_.bucket(where->bucket).members[where->place], descriptor, peers_.self())) {
    return false;
  }
  ticket.set_place({member_.epoch(), where->bucket, where->place, descriptor.memory_place});
  return true;
}

void Replay::submit(const TicketPtr& ticket, Nanoseconds now) {
  const Request& request = ticket->request();
  Locked gate(gate_);
  step(agreement::Submit{request.name, described(request), later(now, request.timeout), request.planning_name});
}

bool Replay::place_call(const TicketPtr& ticket) {
  const Request& request = ticket->request();
  Descriptor descriptor = described(request);
  const Nanoseconds deadline = later(clock_.now(), request.timeout);
  Locked gate(gate_);
  if (member_.mode() != agreement::Mode::replay || !member_.is_planned(request.planning_name)) {
    return false;
  }
  actions_.set_placing(ticket);
  const agreement::Lane lane =
      step(agreement::Submit{request.name, std::move(descriptor), deadline, request.planning_name});
  actions_.set_placing(nullptr);
  if (lane == agreement::Lane::queued) {  // clocks are watched for it too
    state_.watch.begin();
    state_.watch.look_soon();
    state_.outbox.call();
  }
  return true;
}

void Replay::refused(const std::string& name) {
  Locked gate(gate_);
  step(agreement::Refused{name});
}

Descriptor Replay::described(const Request& request) const {
  Descriptor descriptor = describe(request);
  descriptor.memory_place = backend_.place_of(request);
  return descriptor;
}

// ---- The log

void Replay::read(control::Message entry) {
  state_.counters.entries.fetch_add(1, std::memory_order_relaxed);
  Locked gate(gate_);
  state_.outbox.call();
  step(agreement::LogRead{std::move(entry)});
}

void Replay::executed(const std::string& name) {
  Locked gate(gate_);
  step(agreement::Executed{name});
}

void Replay::join(std::uint64_t last_call) {
  Locked gate(gate_);
  actions_.set_last_call(last_call);
  state_.outbox.call();
  step(agreement::JoinCalled{});
}

void Replay::leave() {
  Locked gate(gate_);
  state_.outbox.call();
  step(agreement::LeaveCalled{});
}

void Replay::close(const Status& reason) { end(reason, false); }

void Replay::all_quiet(const Status& reason) { end(reason, true); }

void Replay::end(const Status& reason, bool is_quiet) {
  Locked gate(gate_);
  state_.outbox.call();
  if (is_quiet) {
    step(agreement::AllQuiet{reason});
  } else {
    step(agreement::Close{reason});
  }
  runs().stop();
}

void Replay::stop(const std::vector<int>& lost) {
  Locked gate(gate_);
  agreement::RankSet set(static_cast<std::size_t>(peers_.size()));
  for (int rank : lost) {
    set[static_cast<std::size_t>(rank)] = true;
  }
  step(agreement::Lost{set});
  // Between two calls of advance() nothing is touched, so what was begun can be given up here and now. Only once the
  // member knows of a death: before that the end of an inline bucket's slice is the success of its requests.
  for (std::uint32_t id : runs().active()) {
    if (member_.mode() == agreement::Mode::failing && member_.stage(id) == agreement::Stage::reducing) {
      step(agreement::Reduced{id});
    }
  }
  runs().active().clear();
}

bool Replay::take(ReplayOutbox::Outcome& outcome) {
  if (!state_.outbox.take_call()) {
    return false;
  }
  Locked gate(gate_);
  outcome = state_.outbox.take();
  return true;
}

// ---- Moving

Progress Replay::advance() {
  look_at_breaks();
  const Progress progress = advance_buckets();
  // What is under way needs every peer, and nothing may ever move again if one has given up.
  peers_gave_up_ |= progress == Progress::idle && !runs().active().empty() && peers_.has_any_given_up();
  return progress;
}

Progress Replay::advance_buckets() {
  if (peers_gave_up_) [[unlikely]] {
    return Progress::idle;
  }
  if (runs().has_published()) {
    Locked gate(gate_);
    runs().collect_published();
  }
  std::vector<std::uint32_t>& active = runs().active();
  bool any = false;
  for (std::size_t i = 0; i < active.size();) {
    const std::uint32_t id = active[i];
    const Nanoseconds before = observer_ != nullptr ? clock_.now() : 0;
    const Progress progress = runs()[id].collective().advance();
    if (progress == Progress::idle) {
      ++i;
      continue;
    }
    any = true;
    if (peers_.has_any_given_up()) [[unlikely]] {
      peers_gave_up_ = true;  // what was read may be another step's, or anything
      break;
    }
    if (progress == Progress::done) {
      active.erase(active.begin() + static_cast<std::ptrdiff_t>(i));
    }
    moved(id, progress, before);
    if (progress == Progress::again) {
      break;  // a step does no more than one piece of work that leaves its bucket unfinished
    }
  }
  return any ? Progress::again : Progress::idle;
}

void Replay::launch(std::uint32_t bucket) {
  if (peers_gave_up_) {
    return;
  }
  std::vector<std::uint32_t>& active = runs().active();
  active.push_back(bucket);
  const Nanoseconds before = observer_ != nullptr ? clock_.now() : 0;
  const Progress progress = runs()[bucket].collective().advance();
  if (progress == Progress::idle) {
    return;
  }
  if (peers_.has_any_given_up()) {
    peers_gave_up_ = true;
    return;
  }
  if (progress == Progress::done) {
    active.pop_back();
  }
  moved(bucket, progress, before);
}

/// Tells the member what the bucket has come to: it sees in three events what the bucket does in one call.
/// `before`: while somebody observes, when the look began that found something to do.
void Replay::moved(std::uint32_t id, Progress progress, Nanoseconds before) {
  BucketRun& run = runs()[id];
  observe::Instance instance;
  {
    Locked gate(gate_);
    if (observer_ != nullptr) {
      run.observed().met(before);
      if (progress == Progress::done) {
        instance = run.observed().done(member_.instances(id) + 1, clock_.now());
      }
    }
    const bool is_void = run.has_unnamed() && progress == Progress::done && run.collective().was_void();
    if (is_void) {
      step(agreement::Voided{id});
      instance = {};
    } else if (member_.stage(id) == agreement::Stage::none) {
      step(agreement::AllPublished{id});
    }
    if (progress == Progress::done && !is_void) {
      const bool has_more = member_.bucket(id).has_done_words;
      step(agreement::Reduced{id});
      if (has_more) {
        step(agreement::AllDone{id});
      }
    }
  }
  if (instance.done != 0) {
    observer_->replayed(group_id_, run.collective().description(), instance);
  }
}

void Replay::observe(observe::Observer* observer) {
  Locked gate(gate_);
  observer_ = observer;
  actions_.set_observed(observer != nullptr);
}

// ---- Breaks

/// Nothing if no epoch runs here. Requires: the gate.
void Replay::break_for(agreement::Reason reason, std::uint32_t bucket) { step(agreement::LocalReason{reason, bucket}); }

void Replay::end_epoch() {
  Locked gate(gate_);
  break_for(agreement::Reason::idle);
}

void Replay::cancel() {
  Locked gate(gate_);
  break_for(agreement::Reason::deadline);
}

bool Replay::is_out() {
  Locked gate(gate_);
  break_for(agreement::Reason::leave);
  return member_.mode() != agreement::Mode::frozen && member_.mode() != agreement::Mode::drain;
}

void Replay::end_log() {
  Locked gate(gate_);
  if (member_.is_ordered() &&
      (member_.mode() == agreement::Mode::replay || member_.mode() == agreement::Mode::frozen)) {
    state_.outbox.call();
    step(agreement::LogRead{control::BreakEntry{member_.epoch()}});
  }
}

void Replay::leave_withdrawn_places() {
  Locked gate(gate_);
  if (member_.mode() != agreement::Mode::replay) {
    return;
  }
  for (std::uint32_t id : member_.in_force()) {
    for (const BucketMember& member : member_.bucket(id).members) {
      if (!member.places.empty() &&
          actions_.is_withdrawn(member.places[static_cast<std::size_t>(peers_.self())], member.descriptor)) {
        break_for(agreement::Reason::descriptor, id);
        return;
      }
    }
  }
}

std::vector<MemorySpan> Replay::exposed() const {
  Locked gate(gate_);
  std::vector<MemorySpan> all;
  for (const std::unique_ptr<BucketRun>& run : runs().all()) {
    if (run && run->is_in_force()) {
      for (MemorySpan& span : run->collective().exposed()) {
        all.push_back(std::move(span));
      }
    }
  }
  return all;
}

void Replay::look_at_breaks() {
  if (!runs().replays()) {
    return;
  }
  Locked gate(gate_);
  if (member_.mode() == agreement::Mode::replay) {
    for (int rank = 0; rank < peers_.size(); ++rank) {
      const std::uint32_t epoch = peers_.frozen_in(rank);
      if (rank != peers_.self() && epoch == member_.epoch()) {
        step(agreement::PeerFrozen{epoch});
        break;
      }
    }
  }
  if (member_.mode() == agreement::Mode::frozen && not_frozen().empty()) {
    // Every word is final now, and the decision a function of final words: the same on every rank.
    std::vector<std::uint64_t> published(member_.bucket_count());
    for (std::uint32_t id : member_.in_force()) {
      published[id] = runs()[id].collective().published_by(0);
      for (int rank = 1; rank < peers_.size(); ++rank) {
        published[id] = std::min(published[id], runs()[id].collective().published_by(rank));
      }
    }
    step(agreement::AllFrozen{published});
  }
}

// ---- Time

/// Looks at every bucket in which something is under way, and at no other: there may be thousands that are not in use.
/// The first look at an instance only notes the time.
void Replay::check_time(Nanoseconds now, Nanoseconds stall) {
  BucketWatch& watch = state_.watch;
  if (!runs().replays() || !watch.is_due(now)) {
    return;
  }
  Locked gate(gate_);
  bool any = member_.mode() != agreement::Mode::replay;  // a break has its limits too
  watch.remove_if([this](std::uint32_t id) {
    const bool is_idle = !member_.is_half_full(id) && !member_.is_published(id);
    if (is_idle) {
      runs()[id].end_watch();
    }
    return is_idle;
  });
  any |= !watch.buckets().empty();
  for (std::size_t i = 0; i < watch.buckets().size(); ++i) {
    const std::uint32_t id = watch.buckets()[i];
    BucketRun& run = runs()[id];
    BucketRun::Look look{.now = now, .instance = member_.instances(id) + 1, .stall = stall};
    look.is_half_full = member_.is_half_full(id);
    look.has_queued = member_.has_queued(id);
    look.is_queue_late = member_.has_queued() && now >= member_.next_queued_deadline();
    if (look.is_half_full && (look.has_queued || run.is_wanted())) {
      watch.look_often(now);
    }
    if (const agreement::Reason reason = run.overdue(look); reason != agreement::Reason::none) {
      break_for(reason, id);  // without effect in a break
    }
  }
  watch.end_look(any);
}

std::size_t Replay::watched() const {
  Locked gate(gate_);
  return state_.watch.buckets().size();
}

Nanoseconds Replay::next_check() const { return runs().replays() ? state_.watch.next() : kNever; }

bool Replay::is_waiting() const {
  Locked gate(gate_);
  return member_.is_waiting();
}

std::optional<std::string> Replay::overdue(Nanoseconds now, Nanoseconds grace) const {
  Locked gate(gate_);
  return member_.overdue(now, grace);
}

std::vector<int> Replay::draining_for() const {
  if (!runs().replays()) {
    return {};
  }
  Locked gate(gate_);
  if (member_.mode() != agreement::Mode::drain) {
    return {};
  }
  return decided_wait_for();
}

std::optional<std::vector<int>> Replay::stuck(Nanoseconds now) const {
  if (!runs().replays()) {
    return std::nullopt;
  }
  Locked gate(gate_);
  const bool drains = member_.mode() == agreement::Mode::drain;
  if (member_.mode() != agreement::Mode::frozen && !drains) {
    return std::nullopt;
  }
  bool is_late = now >= later(member_.next_deadline(), kBreakGrace);
  for (std::uint32_t id : member_.in_force()) {
    for (const TicketPtr& ticket : runs()[id].tickets()) {
      is_late |= ticket && now >= later(ticket->deadline(), kBreakGrace);
    }
  }
  if (!is_late) {
    return std::nullopt;
  }
  if (!drains && member_.is_ordered()) {
    return std::vector<int>{kCoordinatorMember};  // whose BREAK does not come
  }
  return drains ? decided_wait_for() : not_frozen();
}

/// Requires: the gate, and that a break was decided.
std::vector<int> Replay::decided_wait_for() const {
  for (std::uint32_t id : runs().active()) {
    if (member_.is_decided(id)) {
      if (std::vector<int> ranks = runs()[id].collective().waiting_for(); !ranks.empty()) {
        return ranks;
      }
    }
  }
  return {};
}

std::vector<int> Replay::not_frozen() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    if (!is_gone(rank) && peers_.frozen_in(rank) != member_.epoch()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace ronde::engine
