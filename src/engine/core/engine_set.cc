#include "engine/core/engine_set.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace ronde::engine {

namespace {

/// A group that had nothing to do for so many steps is put to rest.
constexpr int kIdleSteps = 32;

/// Memory that runs out in a step ends that engine's work, with an error for all who wait: a caller must not return
/// while the engine still works on its tensors.
template <typename Move>
bool moves(Engine& engine, const Move& move) {
  try {
    return move(engine);
  } catch (const std::bad_alloc&) {
    engine.fail(Status::error(Code::out_of_memory, "no memory left to work on this rank's requests"));
    return true;
  }
}

bool step_of(Engine& engine) { return engine.step(); }

}  // namespace

EngineSet::EngineSet(std::unique_ptr<Engine> job) : job_(std::move(job)), calls_(*job_->connections().calls) {
  introduce(*job_);
}

/// To the others.
void EngineSet::introduce(Engine& engine) {
  engine.set_neighbours([this, self = &engine](const std::function<void(Engine&)>& visit) {
    if (job_.get() != self) {
      visit(*job_);
    }
    for (const auto& [id, member] : groups_) {
      if (member->engine.get() != self) {
        visit(*member->engine);
      }
    }
  });
}

EngineSet::Found EngineSet::find(std::int32_t group) const {
  std::shared_lock lock(mutex_);
  const auto found = groups_.find(group);
  return found == groups_.end() ? Found() : Found{found->second->engine, found->second->call};
}

Status EngineSet::no_such_group(std::int32_t group) const {
  return Status::error(Code::invalid_argument,
                       "rank " + std::to_string(job_->topology().rank) + " belongs to no process set with the id " +
                           std::to_string(group) +
                           "; add_process_set gives the ids, and remove_process_set or shutdown end them");
}

bool EngineSet::has_input() const {
  if (job_->has_input()) {
    return true;
  }
  if (!any_groups_.load(std::memory_order_acquire)) {
    return false;
  }
  std::shared_lock lock(mutex_);
  return calls_.any() ||
         std::any_of(awake_.begin(), awake_.end(), [](const Member* each) { return each->engine->has_input(); });
}

bool EngineSet::has_outstanding() const {
  if (job_->has_outstanding()) {
    return true;
  }
  if (!any_groups_.load(std::memory_order_acquire)) {
    return false;
  }
  // None is put to rest with something outstanding.
  std::shared_lock lock(mutex_);
  return calls_.any() ||
         std::any_of(awake_.begin(), awake_.end(), [](const Member* each) { return each->engine->has_outstanding(); });
}

std::uint64_t EngineSet::sum(const std::function<std::uint64_t(const Engine&)>& count) const {
  std::uint64_t total = count(*job_);
  if (any_groups_.load(std::memory_order_acquire)) {
    std::shared_lock lock(mutex_);
    for (const auto& [id, each] : groups_) {
      total += count(*each->engine);
    }
  }
  return total;
}

void EngineSet::notice_end(int rank) {
  job_->notice_end(rank);
  // After that one, as add() looks there after the group is in the list: one of the two tells the group.
  std::shared_lock lock(mutex_);
  for (const auto& [id, each] : groups_) {
    if (const int member = each->engine->group().index_of(rank); member >= 0) {
      each->engine->notice_end(member);
      call(each->call);
    }
  }
}

std::size_t EngineSet::awake() const {
  std::shared_lock lock(mutex_);
  return awake_.size();
}

void EngineSet::add(std::shared_ptr<Engine> group, int call) {
  Engine& added = *group;
  added.observe(observer_);
  introduce(added);
  {
    auto member = std::make_unique<Member>();
    member->engine = std::move(group);
    member->call = call;
    std::unique_lock lock(mutex_);
    const auto at = static_cast<std::size_t>(call);
    by_call_.resize(std::max(by_call_.size(), at + 1));
    calls_.reserve(call);
    awake_.reserve(by_call_.size());  // what is called is woken without asking for memory
    wake(*(by_call_[at] = member.get()));
    groups_.emplace(added.group().id, std::move(member));
    any_groups_.store(true, std::memory_order_release);
  }
  for (int member = 0; member < added.group().size(); ++member) {
    if (job_->has_ended(added.group().ranks[static_cast<std::size_t>(member)])) {
      added.notice_end(member);
    }
  }
}

void EngineSet::remove(std::int32_t group) {
  std::unique_ptr<Member> removed;  // destroyed behind the lock
  std::unique_lock lock(mutex_);
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    return;
  }
  removed = std::move(found->second);
  groups_.erase(found);
  by_call_[static_cast<std::size_t>(removed->call)] = nullptr;
  std::erase(awake_, removed.get());
  calls_.set_at_rest(removed->call);
  calls_.take_back(removed->call);
  any_groups_.store(!groups_.empty(), std::memory_order_release);
}

// ---- Awake and at rest

/// Requires: both locks.
void EngineSet::wake(Member& member) {
  member.is_awake = true;
  member.idle_steps = 0;
  awake_.push_back(&member);
  calls_.set_awake(member.call);
}

void EngineSet::wake_called() {
  if (!calls_.any()) {
    return;
  }
  std::unique_lock lock(mutex_);
  calls_.each([this](int call) {
    const auto at = static_cast<std::size_t>(call);
    if (at < by_call_.size() && by_call_[at] != nullptr) {
      wake(*by_call_[at]);
    } else {
      calls_.take_back(call);  // of a group that is gone, or not here yet
    }
  });
}

void EngineSet::wake_by_timers() {
  if (resting_timer_ == kNever) {
    return;
  }
  const Nanoseconds now = job_->clock().now();
  if (now < resting_timer_) {
    return;
  }
  resting_timer_ = kNever;
  std::unique_lock lock(mutex_);
  for (const auto& [id, each] : groups_) {
    if (each->is_awake) {
      continue;
    }
    const Nanoseconds timer = each->engine->next_timer();
    if (timer <= now) {
      wake(*each);
    } else {
      resting_timer_ = std::min(resting_timer_, timer);
    }
  }
}

/// Those that have had nothing to do for a while.
void EngineSet::put_to_rest() {
  for (std::size_t i = 0; i < awake_.size();) {
    Member& member = *awake_[i];
    if (member.idle_steps < kIdleSteps || !member.engine->may_rest()) {
      ++i;
      continue;
    }
    calls_.take_back(member.call);
    if (moves(*member.engine, step_of) || !member.engine->may_rest()) {
      member.idle_steps = 0;
      ++i;
      continue;
    }
    resting_timer_ = std::min(resting_timer_, member.engine->next_timer());
    std::unique_lock lock(mutex_);
    member.is_awake = false;
    calls_.set_at_rest(member.call);
    awake_.erase(awake_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// ---- Moving

template <typename Move>
bool EngineSet::move_awake(const Move& move) {
  bool moved = false;
  for (Member* each : awake_) {
    if (!moves(*each->engine, move)) {
      ++each->idle_steps;
      continue;
    }
    moved = true;
    each->idle_steps = 0;
    const std::uint64_t replayed = each->engine->replay_counters().instances.load(std::memory_order_relaxed);
    replayed_ += replayed - std::exchange(each->replayed, replayed);
  }
  return moved;
}

bool EngineSet::step() {
  bool moved = moves(*job_, step_of);
  if (any_groups_.load(std::memory_order_relaxed)) {
    wake_called();
    wake_by_timers();
    moved |= move_awake(step_of);
    put_to_rest();
  }
  return moved;
}

bool EngineSet::poll() {
  const auto poll = [](Engine& engine) { return engine.poll(); };
  const bool moved = moves(*job_, poll);
  return move_awake(poll) || moved;
}

bool EngineSet::replays() const {
  return job_->replays() ||
         std::any_of(awake_.begin(), awake_.end(), [](const Member* each) { return each->engine->replays(); });
}

std::uint64_t EngineSet::replayed() const {
  return job_->replay_counters().instances.load(std::memory_order_relaxed) + replayed_;
}

Nanoseconds EngineSet::next_timer() const {
  Nanoseconds next = std::min(job_->next_timer(), resting_timer_);
  for (const Member* each : awake_) {
    next = std::min(next, each->engine->next_timer());
  }
  return next;
}

// ---- The end

void EngineSet::begin_leave() {
  for (const auto& [id, each] : groups_) {
    each->engine->begin_leave();
    call(each->call);
  }
  job_->begin_leave();
}

bool EngineSet::has_left() const {
  return job_->leaving() == Leaving::over && std::all_of(groups_.begin(), groups_.end(), [](const auto& each) {
           return each.second->engine->leaving() == Leaving::over;
         });
}

void EngineSet::finish_leave() {
  for (const auto& [id, each] : groups_) {
    each->engine->finish_leave();
  }
  job_->finish_leave();
}

void EngineSet::fail(const Status& status) {
  for (const auto& [id, each] : groups_) {
    each->engine->fail(status);
  }
  job_->fail(status);
}

void EngineSet::observe(observe::Observer* observer) {
  observer_ = observer;
  job_->observe(observer);
  for (const auto& [id, each] : groups_) {
    each->engine->observe(observer);
  }
}

}  // namespace ronde::engine
