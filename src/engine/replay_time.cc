// When replay looks at its buckets' time, whether one of their requests has none left or a bucket no patience, and whom
// a break that does not end waits for.
#include <algorithm>
#include <mutex>

#include "engine/replay.h"

namespace ronde::engine {

namespace {

/// How often is looked: often while a half full bucket is waited for.
constexpr Nanoseconds kLookOften = kMillisecond;
constexpr Nanoseconds kLookSeldom = 250 * kMillisecond;
/// Looks that waiters ask for do not come closer together than this: each goes over all buckets.
constexpr Nanoseconds kLookGap = 200 * kMicrosecond;
/// After a request's time was up, so long for a break to end: then a rank is stopped, and no common point is left.
constexpr Nanoseconds kBreakGrace = 5 * kSecond;

}  // namespace

/// Looks at every bucket in which something is under way, and at no other: there may be thousands that are not in use.
/// The first look at an instance only notes the time.
void Replay::check_time(Nanoseconds now, Nanoseconds stall) {
  const bool soon = look_soon_.load(std::memory_order_relaxed) && now >= later(last_look_, kLookGap);
  if (!replaying_.load(std::memory_order_relaxed) || (now < next_check_ && !soon)) {
    return;
  }
  look_soon_.store(false, std::memory_order_relaxed);
  last_look_ = now;
  std::lock_guard<Gate> gate(gate_);
  next_check_ = later(now, kLookSeldom);
  bool any = member_.mode() != agreement::Mode::replay;  // a break has its limits too
  std::erase_if(watched_, [this](std::uint32_t id) {
    const bool is_idle = !member_.is_half_full(id) && !member_.is_published(id);
    runs_[id]->is_watched = !is_idle;
    return is_idle;
  });
  any |= !watched_.empty();
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    const std::uint32_t id = watched_[i];
    Run& run = *runs_[id];
    if (member_.is_half_full(id) && (is_wanted(run) || member_.has_queued(id))) {
      next_check_ = later(now, kLookOften);
    }
    agreement::Reason reason = agreement::Reason::none;
    if (is_overdue(run, id, now, stall, reason)) {
      member_.step(agreement::LocalReason{reason, id}, *this);  // without effect in a break
    }
  }
  under_way_.store(any, std::memory_order_relaxed);
}

std::size_t Replay::watched() const {
  std::lock_guard<Gate> gate(gate_);
  return watched_.size();
}

Nanoseconds Replay::next_check() const {
  if (!replaying_.load(std::memory_order_relaxed) || !under_way_.load(std::memory_order_relaxed)) {
    return kNever;
  }
  return look_soon_.load(std::memory_order_relaxed) ? std::min(next_check_, later(last_look_, kLookGap)) : next_check_;
}

bool Replay::is_wanted(const Run& run) {
  return std::any_of(run.tickets.begin(), run.tickets.end(),
                     [](const TicketPtr& ticket) { return ticket && (ticket->is_wanted() || ticket->on_done()); });
}

std::optional<std::vector<int>> Replay::stuck(Nanoseconds now) const {
  if (!replaying_.load(std::memory_order_relaxed)) {
    return std::nullopt;
  }
  std::lock_guard<Gate> gate(gate_);
  const bool drains = member_.mode() == agreement::Mode::drain;
  if (member_.mode() != agreement::Mode::frozen && !drains) {
    return std::nullopt;
  }
  bool is_late = now >= later(member_.next_deadline(), kBreakGrace);
  for (std::uint32_t id : member_.in_force()) {
    for (const TicketPtr& ticket : runs_[id]->tickets) {
      is_late |= ticket && now >= later(ticket->deadline(), kBreakGrace);
    }
  }
  if (!is_late) {
    return std::nullopt;
  }
  return drains ? decided_wait_for() : not_frozen();
}

/// Requires: the gate, and that a break was decided.
std::vector<int> Replay::decided_wait_for() const {
  for (std::uint32_t id : active_) {
    if (member_.is_decided(id)) {
      if (std::vector<int> ranks = runs_[id]->data->waiting_for(); !ranks.empty()) {
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

bool Replay::is_overdue(Run& run, std::uint32_t id, Nanoseconds now, Nanoseconds stall, agreement::Reason& reason) {
  const Nanoseconds waited = run.patience.waited(member_.instances(id) + 1, now);
  if (member_.has_queued() && now >= member_.next_queued_deadline()) {
    reason = agreement::Reason::deadline;
  }
  for (const TicketPtr& ticket : run.tickets) {
    if (ticket && waited >= ticket->request().timeout) {
      ticket->set_deadline(std::min(ticket->deadline(), now));
      reason = agreement::Reason::deadline;
    }
  }
  if (reason == agreement::Reason::none) {
    const bool is_half_full = member_.is_half_full(id);
    // Who is behind in a queue may be waited for.
    reason = run.patience.judge(now, is_half_full, is_half_full && (is_wanted(run) || member_.has_queued(id)), stall);
  }
  return reason != agreement::Reason::none;
}

}  // namespace ronde::engine
