#include "engine/replay.h"

#include <algorithm>
#include <mutex>

namespace ronde::engine {

namespace {

using Locked = std::lock_guard<Gate>;

/// Of many, so many tickets are placed under one hold of the gate, or so many bytes of them, which are copied in: some
/// microseconds.
constexpr std::size_t kPlacedAtOnce = 32;
constexpr std::size_t kBytesAtOnce = 64 << 10;

}  // namespace

Replay::Replay(Group group, backend::Backend& backend, transport::Peers& peers, Loss& loss, const PendingTable& pending,
               const Clock& clock)
    : backend_(backend),
      pending_(pending),
      peers_(peers),
      loss_(loss),
      clock_(clock),
      group_id_(group.id),
      member_(std::move(group), peers.self()) {}

// ---- Submitting

bool Replay::place(const TicketPtr& ticket) {
  if (!replaying_.load(std::memory_order_relaxed)) {
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
  while (placed < tickets.size() && replaying_.load(std::memory_order_relaxed)) {
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
  } held{runs_[at.bucket]->tickets[at.place]};
  held.ticket = ticket;
  held.lane = member_.step(agreement::SubmitPlace{at.bucket, at.place, 0, kNever, ticket->place().heap_place}, *this);
  return true;
}

bool Replay::find_place(Ticket& ticket, const Descriptor& descriptor) {
  const auto where = member_.where(ticket.name());
  if (!where || !fits(member_.bucket(where->bucket).members[where->place], descriptor, peers_.self())) {
    return false;
  }
  ticket.set_place({member_.epoch(), where->bucket, where->place, descriptor.heap_place});
  return true;
}

void Replay::submit(const TicketPtr& ticket, Nanoseconds now) {
  const Request& request = ticket->request();
  Locked gate(gate_);
  member_.step(agreement::Submit{request.name, described(request), later(now, request.timeout), request.planning_name},
               *this);
}

void Replay::copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t) {
  Run& run = *runs_[bucket];
  if (!run.is_watched) {
    run.is_watched = true;
    watched_.push_back(bucket);
  }
  TicketPtr& ticket = run.tickets[place];
  if (!ticket) {  // it is an unnamed call, or comes from learning
    const std::string& name = member_.request_in(bucket, place);
    ticket = placing_ && placing_->name() == name ? placing_ : pending_.find(name);
  }
  run.data->bind(place, ticket->request().tensors);
  run.data->copy_in(place);
  ticket->set_alone(run.tickets.size() == 1);
  if (run.tickets.size() > 1) {
    if (!member_.is_half_full(bucket)) {
      run.patience.begun(clock_.now());
    }
    if (ticket->on_done()) {  // nobody will wait for it, but somebody wants to hear
      look_soon_.store(true, std::memory_order_relaxed);
    }
  }
  if (!under_way_.load(std::memory_order_relaxed)) {  // from now on clocks are watched
    under_way_.store(true, std::memory_order_relaxed);
    has_work_.store(true, std::memory_order_release);
  }
}

void Replay::publish(std::uint32_t bucket, agreement::Flag) {
  Run& run = *runs_[bucket];
  run.data->publish(run.has_unnamed ? calls_in(bucket) : 0);
  if (is_observed_) {
    run.observed.published = clock_.now();
  }
  if (run.tickets.size() > 1) {
    run.patience.filled(clock_.now());
  }
  fresh_.push_back(bucket);
  has_fresh_.store(true, std::memory_order_release);
}

// ---- What comes back

void Replay::complete(std::uint32_t bucket, std::uint64_t) {
  Run& run = *runs_[bucket];
  for (TicketPtr& ticket : run.tickets) {
    completed_.push_back(std::move(ticket));
    ticket.reset();
  }
  // One thread at a time adds: no need to lock the bus.
  counters_.instances.store(counters_.instances.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  counters_.direct_bytes.store(counters_.direct_bytes.load(std::memory_order_relaxed) + run.direct_bytes,
                               std::memory_order_relaxed);
}

void Replay::voided(std::uint32_t bucket) {
  std::fill(runs_[bucket]->tickets.begin(), runs_[bucket]->tickets.end(), nullptr);
  counters_.voided.fetch_add(1, std::memory_order_relaxed);
}

void Replay::fail(const std::string& name, Status status) {
  outcome_.failed.emplace_back(name, std::move(status));
  has_work_.store(true, std::memory_order_release);
}

void Replay::bug(std::string_view what) {
  outcome_.bug = std::string(what);
  has_work_.store(true, std::memory_order_release);
}

void Replay::send(control::Message message) {
  outcome_.messages.emplace_back(std::move(message), kNever);
  has_work_.store(true, std::memory_order_release);
}

Nanoseconds Replay::send_request(control::RequestMessage message, Nanoseconds deadline) {
  if (is_withdrawn(message.descriptor.heap_place, message.descriptor)) {
    message.descriptor.heap_place = {};  // it was described before that
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
    if (!message.planning_name.empty()) {
      message.position = ticket->asked_at(message.position);
    }
    message.timeout = ticket->request().timeout;  // the whole; what is left of it is known when it is sent
  }
  outcome_.messages.emplace_back(std::move(message), deadline);
  has_work_.store(true, std::memory_order_release);
  return deadline;
}

void Replay::execute(std::vector<control::ExecEntry::Item> items) { outcome_.agreed.emplace_back(std::move(items)); }

/// Every rank does this at the same position of the log. A bucket goes by the row under which it was prepared for as
/// long as it lives; what buckets have in common takes another one at INSTALL only, when none is under way (install()).
void Replay::table(const Thresholds& thresholds) {
  table_ = thresholds;
  outcome_.agreed.emplace_back(thresholds);
}

/// What the log has told, else what all began with.
Thresholds Replay::in_force() const { return table_ ? *table_ : backend_.first_thresholds(); }

bool Replay::take(Outcome& outcome) {
  if (!has_work_.load(std::memory_order_relaxed) || !has_work_.exchange(false, std::memory_order_acquire)) {
    return false;
  }
  Locked gate(gate_);
  outcome = std::exchange(outcome_, {});
  return true;
}

// ---- The log

void Replay::read(control::Message entry) {
  counters_.entries.fetch_add(1, std::memory_order_relaxed);
  Locked gate(gate_);
  has_work_.store(true, std::memory_order_release);
  member_.step(agreement::LogRead{std::move(entry)}, *this);
}

void Replay::executed(const std::string& name) {
  Locked gate(gate_);
  member_.step(agreement::Executed{name}, *this);
}

void Replay::join(std::uint64_t last_call) {
  Locked gate(gate_);
  last_call_ = last_call;
  has_work_.store(true, std::memory_order_release);
  member_.step(agreement::JoinCalled{}, *this);
}

void Replay::leave() {
  Locked gate(gate_);
  has_work_.store(true, std::memory_order_release);
  member_.step(agreement::LeaveCalled{}, *this);
}

void Replay::close(const Status& reason) { end(reason, false); }

void Replay::all_quiet(const Status& reason) { end(reason, true); }

void Replay::end(const Status& reason, bool is_quiet) {
  Locked gate(gate_);
  has_work_.store(true, std::memory_order_release);
  active_.clear();
  if (is_quiet) {
    member_.step(agreement::AllQuiet{reason}, *this);
  } else {
    member_.step(agreement::Close{reason}, *this);
  }
  replaying_.store(false, std::memory_order_relaxed);
  fresh_.clear();
  has_fresh_.store(false, std::memory_order_relaxed);
}

void Replay::stop(const std::vector<int>& lost) {
  Locked gate(gate_);
  // Between two calls of advance() nothing is touched, so what was begun can be given up here and now.
  for (std::uint32_t id : active_) {
    if (member_.stage(id) == agreement::Stage::reducing) {
      member_.step(agreement::Reduced{id}, *this);
    }
  }
  active_.clear();
  agreement::RankSet set(static_cast<std::size_t>(peers_.size()));
  for (int rank : lost) {
    set[static_cast<std::size_t>(rank)] = true;
  }
  member_.step(agreement::Lost{set}, *this);
}

void Replay::prepare(const Bucket& bucket) {
  while (runs_.size() <= bucket.id) {
    runs_.push_back(nullptr);
  }
  send(control::PreparedMessage{bucket.id, !make_ready(bucket)});
}

bool Replay::make_ready(const Bucket& bucket) {
  Result<std::unique_ptr<PersistentCollective>> made = backend_.prepare(bucket, in_force());
  if (!made) {
    return false;
  }
  auto run = std::make_unique<Run>();
  run->data = std::move(*made);
  run->tickets.resize(bucket.members.size());
  run->has_unnamed = has_unnamed(bucket);
  run->direct_bytes = bucket.kind == BucketKind::direct ? payload_bytes(bucket) : 0;
  runs_[bucket.id] = std::move(run);
  return true;
}

void Replay::install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) {
  // Before an INSTALL every rank has finished what was decided in the epoch before, and nobody begins anything until
  // all have read the entry.
  if (!added) {
    backend_.begin_epoch(in_force());
  }
  for (std::uint32_t id : buckets) {
    Run& run = *runs_[id];
    run.data->enter(epoch);
    run.in_force = true;
    run.patience.restart();
  }
  fresh_.reserve(runs_.size());
  watched_.reserve(runs_.size());
  next_check_ = 0;
  counters_.installs.fetch_add(1, std::memory_order_relaxed);
  replaying_.store(true, std::memory_order_relaxed);
}

void Replay::ended(std::uint32_t) {
  for (const std::unique_ptr<Run>& run : runs_) {
    if (run && run->in_force) {
      run->data->cancel();
      run->in_force = false;
      std::fill(run->tickets.begin(), run->tickets.end(), nullptr);
    }
  }
  active_.clear();
  fresh_.clear();
  counters_.breaks.fetch_add(1, std::memory_order_relaxed);
  replaying_.store(false, std::memory_order_relaxed);
}

void Replay::retire(std::uint32_t bucket) {
  if (!runs_[bucket]) {
    return;  // refused here; the coordinator has freed it
  }
  std::erase(watched_, bucket);
  runs_[bucket].reset();
  send(control::FreeMessage{bucket});
}

// ---- Moving

Progress Replay::advance() {
  look_at_breaks();
  const Progress progress = advance_buckets();
  // What is under way needs every peer, and nothing may ever move again if one has given up.
  peers_gave_up_ |= progress == Progress::idle && !active_.empty() && peers_.has_any_given_up();
  return progress;
}

Progress Replay::advance_buckets() {
  if (peers_gave_up_) [[unlikely]] {
    return Progress::idle;
  }
  collect_fresh();
  bool any = false;
  for (std::size_t i = 0; i < active_.size();) {
    const std::uint32_t id = active_[i];
    const Nanoseconds before = observer_ != nullptr ? clock_.now() : 0;
    const Progress progress = runs_[id]->data->advance();
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
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    moved(id, progress, before);
    if (progress == Progress::again) {
      break;  // a step moves no more than one piece of work of one bucket
    }
  }
  return any ? Progress::again : Progress::idle;
}

void Replay::collect_fresh() {
  if (!has_fresh_.load(std::memory_order_acquire)) {
    return;
  }
  Locked gate(gate_);
  has_fresh_.store(false, std::memory_order_relaxed);
  for (std::uint32_t id : fresh_) {
    active_.insert(std::lower_bound(active_.begin(), active_.end(), id), id);
  }
  fresh_.clear();
}

/// Tells the member what the bucket has come to: it sees in three events what the bucket does in one call.
/// `before`: while somebody observes, when the look began that found something to do.
void Replay::moved(std::uint32_t id, Progress progress, Nanoseconds before) {
  Run& run = *runs_[id];
  observe::Instance instance;
  {
    Locked gate(gate_);
    if (observer_ != nullptr) {
      instance = note(run, id, progress, before);
    }
    const bool is_void = run.has_unnamed && progress == Progress::done && run.data->was_void();
    if (is_void) {
      member_.step(agreement::Voided{id}, *this);
      instance = {};
    } else if (member_.stage(id) == agreement::Stage::none) {
      member_.step(agreement::AllPublished{id}, *this);
    }
    if (progress == Progress::done && !is_void) {
      const bool is_inline = member_.bucket(id).kind == BucketKind::inlined;
      member_.step(agreement::Reduced{id}, *this);
      if (!is_inline) {
        member_.step(agreement::AllDone{id}, *this);
      }
    }
  }
  if (instance.done != 0) {
    observer_->replayed(group_id_, run.data->description(), instance);
  }
}

/// What is known of the instance; complete once it is done.
observe::Instance Replay::note(Run& run, std::uint32_t id, Progress progress, Nanoseconds before) {
  run.observed.met = run.observed.met == 0 ? before : run.observed.met;
  if (progress != Progress::done) {
    return {};
  }
  observe::Instance instance = std::exchange(run.observed, {});
  instance.number = member_.instances(id) + 1;
  instance.done = clock_.now();
  return instance;
}

void Replay::observe(observe::Observer* observer) {
  Locked gate(gate_);
  observer_ = observer;
  is_observed_ = observer != nullptr;
  for (const std::unique_ptr<Run>& run : runs_) {
    if (run) {
      run->observed = {};
    }
  }
}

// ---- Breaks

void Replay::set_frozen(std::uint32_t epoch, agreement::Reason reason) {
  peers_.say_frozen(epoch, static_cast<std::uint32_t>(reason));
  under_way_.store(true, std::memory_order_relaxed);
  has_work_.store(true, std::memory_order_release);
}

void Replay::end_epoch() {
  Locked gate(gate_);
  if (member_.mode() == agreement::Mode::replay) {
    member_.step(agreement::LocalReason{agreement::Reason::idle, 0}, *this);
  }
}

void Replay::cancel() {
  Locked gate(gate_);
  if (member_.mode() == agreement::Mode::replay) {
    member_.step(agreement::LocalReason{agreement::Reason::deadline, 0}, *this);
  }
}

bool Replay::is_out() {
  Locked gate(gate_);
  if (member_.mode() == agreement::Mode::replay) {
    member_.step(agreement::LocalReason{agreement::Reason::leave, 0}, *this);
  }
  return member_.mode() != agreement::Mode::frozen && member_.mode() != agreement::Mode::drain;
}

void Replay::look_at_breaks() {
  if (!replaying_.load(std::memory_order_relaxed)) {
    return;
  }
  Locked gate(gate_);
  if (member_.mode() == agreement::Mode::replay) {
    for (int rank = 0; rank < peers_.size(); ++rank) {
      const std::uint32_t epoch = peers_.frozen_in(rank);
      if (rank != peers_.self() && epoch == member_.epoch()) {
        member_.step(agreement::PeerFrozen{epoch}, *this);
        break;
      }
    }
  }
  if (member_.mode() == agreement::Mode::frozen && all_are_frozen()) {
    // Every word is final now, and the decision a function of final words: the same on every rank.
    std::vector<std::uint64_t> published(member_.bucket_count());
    for (std::uint32_t id : member_.in_force()) {
      published[id] = runs_[id]->data->published_by(0);
      for (int rank = 1; rank < peers_.size(); ++rank) {
        published[id] = std::min(published[id], runs_[id]->data->published_by(rank));
      }
    }
    member_.step(agreement::AllFrozen{published}, *this);
  }
}

bool Replay::is_waiting() const {
  Locked gate(gate_);
  return member_.is_waiting();
}

std::optional<std::string> Replay::overdue(Nanoseconds now, Nanoseconds grace) const {
  Locked gate(gate_);
  return member_.overdue(now, grace);
}

std::vector<int> Replay::draining_for() const {
  if (!replaying_.load(std::memory_order_relaxed)) {
    return {};
  }
  Locked gate(gate_);
  if (member_.mode() != agreement::Mode::drain) {
    return {};
  }
  return decided_wait_for();
}

}  // namespace ronde::engine
