#include "engine/engine_set.h"

#include <algorithm>
#include <mutex>
#include <new>

namespace ronde::engine {

EngineSet::EngineSet(std::unique_ptr<Engine> job) : job_(std::move(job)) { introduce(*job_); }

/// To the others.
void EngineSet::introduce(Engine& engine) {
  engine.set_neighbours([this, self = &engine](const std::function<void(Engine&)>& visit) {
    if (job_.get() != self) {
      visit(*job_);
    }
    for (const auto& each : groups_) {
      if (each.get() != self) {
        visit(*each);
      }
    }
  });
}

std::shared_ptr<Engine> EngineSet::find(std::int32_t group) const {
  std::shared_lock lock(mutex_);
  for (const auto& each : groups_) {
    if (each->group().id == group) {
      return each;
    }
  }
  return nullptr;
}

bool EngineSet::has_input() const {
  if (job_->has_input() || !any_groups_.load(std::memory_order_acquire)) {
    return job_->has_input();
  }
  std::shared_lock lock(mutex_);
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& each) { return each->has_input(); });
}

bool EngineSet::has_outstanding() const {
  if (job_->has_outstanding() || !any_groups_.load(std::memory_order_acquire)) {
    return job_->has_outstanding();
  }
  std::shared_lock lock(mutex_);
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& each) { return each->has_outstanding(); });
}

std::uint64_t EngineSet::sum(const std::function<std::uint64_t(const Engine&)>& count) const {
  std::uint64_t total = count(*job_);
  if (any_groups_.load(std::memory_order_acquire)) {
    std::shared_lock lock(mutex_);
    for (const auto& each : groups_) {
      total += count(*each);
    }
  }
  return total;
}

void EngineSet::notice_end(int rank) {
  job_->notice_end(rank);
  // After that one, as add() looks there after the group is in the list: one of the two tells the group.
  std::shared_lock lock(mutex_);
  for (const auto& each : groups_) {
    if (const int member = each->group().index_of(rank); member >= 0) {
      each->notice_end(member);
    }
  }
}

void EngineSet::add(std::shared_ptr<Engine> group) {
  Engine& added = *group;
  added.observe(observer_);
  introduce(added);
  {
    std::unique_lock lock(mutex_);
    groups_.push_back(std::move(group));
    any_groups_.store(true, std::memory_order_release);
  }
  for (int member = 0; member < added.group().size(); ++member) {
    if (job_->has_ended(added.group().ranks[static_cast<std::size_t>(member)])) {
      added.notice_end(member);
    }
  }
}

void EngineSet::remove(std::int32_t group) {
  std::unique_lock lock(mutex_);
  std::erase_if(groups_, [&](const auto& each) { return each->group().id == group; });
  any_groups_.store(!groups_.empty(), std::memory_order_release);
}

namespace {

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

}  // namespace

bool EngineSet::step() {
  const auto step = [](Engine& engine) { return engine.step(); };
  bool moved = moves(*job_, step);
  for (const auto& each : groups_) {
    moved |= moves(*each, step);
  }
  return moved;
}

bool EngineSet::poll() {
  const auto poll = [](Engine& engine) { return engine.poll(); };
  bool moved = moves(*job_, poll);
  for (const auto& each : groups_) {
    moved |= moves(*each, poll);
  }
  return moved;
}

bool EngineSet::only_replays() const {
  return job_->only_replays() ||
         std::any_of(groups_.begin(), groups_.end(), [](const auto& each) { return each->only_replays(); });
}

Nanoseconds EngineSet::next_timer() const {
  Nanoseconds next = job_->next_timer();
  for (const auto& each : groups_) {
    next = std::min(next, each->next_timer());
  }
  return next;
}

void EngineSet::begin_leave() {
  for (const auto& each : groups_) {
    each->begin_leave();
  }
  job_->begin_leave();
}

bool EngineSet::has_left() const {
  return job_->leaving() == Leaving::over &&
         std::all_of(groups_.begin(), groups_.end(), [](const auto& each) { return each->leaving() == Leaving::over; });
}

void EngineSet::finish_leave() {
  for (const auto& each : groups_) {
    each->finish_leave();
  }
  job_->finish_leave();
}

void EngineSet::fail(const Status& status) {
  for (const auto& each : groups_) {
    each->fail(status);
  }
  job_->fail(status);
}

void EngineSet::observe(observe::Observer* observer) {
  observer_ = observer;
  job_->observe(observer);
  for (const auto& each : groups_) {
    each->observe(observer);
  }
}

}  // namespace ronde::engine
