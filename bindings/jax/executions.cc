#include "executions.h"

#include <utility>
#include <vector>

namespace ronde::jax {

namespace {

/// So many are remembered: of those before them XLA begins nothing any more.
constexpr std::size_t kMost = 256;

/// How often init() has run; -1 if there is no job.
std::int64_t epoch_now() {
  ronde_topology topology{};
  topology.struct_size = sizeof(topology);
  return ronde_get_topology(nullptr, &topology) == RONDE_OK ? static_cast<std::int64_t>(topology.epoch) : -1;
}

/// The greatest of the ranks' numbers; false with the reason if they do not all ask.
bool greatest_of_all(std::int32_t group, std::int64_t* number, std::string& why) {
  static constexpr char kName[] = "ronde.jax.generation";
  static constexpr std::int64_t kOne = 1;
  ronde_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.data = number;
  tensor.shape = &kOne;
  tensor.ndim = 1;
  tensor.dtype = RONDE_INT64;
  ronde_request request{};
  request.struct_size = sizeof(request);
  request.op = RONDE_ALLREDUCE;
  request.group = group;
  request.name = kName;
  request.name_bytes = sizeof(kName) - 1;
  request.inputs = &tensor;
  request.outputs = &tensor;
  request.count = 1;
  request.reduce_op = RONDE_MAX;
  request.prescale = request.postscale = 1.0;
  const ronde_status status = ronde_execute(nullptr, &request, -1.0, nullptr);
  if (status != RONDE_OK) {
    why = ronde_last_error();
  }
  return status == RONDE_OK;
}

}  // namespace

Executions& Executions::instance() {
  static auto* const all = new Executions;  // threads may still use it while the process ends
  return *all;
}

Executions::Execution& Executions::execution(std::int64_t run) {
  const auto [found, is_new] = executions_.try_emplace(run);
  if (is_new) {
    follow_init();
    newest_.push_back(run);
    for (std::size_t kept = 0; newest_.size() > kMost && kept < kMost;) {
      const std::int64_t oldest = newest_.front();
      newest_.pop_front();
      if (executions_.at(oldest).under_way.empty()) {
        executions_.erase(oldest);
      } else {
        newest_.push_back(oldest);
        ++kept;
      }
    }
  }
  return executions_.at(run);
}

void Executions::follow_init() {
  if (const std::int64_t epoch = epoch_now(); epoch != epoch_) {
    epoch_ = epoch;
    for (auto& [id, group] : groups_) {
      group.generation = 0;
      group.is_in_doubt = false;
    }
  }
}

Executions::Answer Executions::begin(std::int64_t run, std::int32_t group) {
  std::unique_lock lock(mutex_);
  std::string why;
  const Execution& before = execution(run);
  if (!before.has_failed && !before.generations.contains(group) && !agree(lock, group, why)) {
    const std::string error =
        "an earlier execution of a compiled program has failed on this rank, and the ranks could not agree to go on: " +
        why;
    return {fail_locked(run, error, true), {}};
  }
  Execution& mine = execution(run);
  if (mine.has_failed) {
    return {mine.error, {}};
  }
  use_together(mine, group);
  const std::int64_t generation = mine.generations.try_emplace(group, groups_[group].generation).first->second;
  return {{}, generation == 0 ? std::string() : "~after-" + std::to_string(generation)};
}

void Executions::use_together(const Execution& mine, std::int32_t group) {
  for (const auto& [other, generation] : mine.generations) {
    if (other != group) {
      groups_[group].together.insert(other);
      groups_[other].together.insert(group);
    }
  }
}

/// True once the ranks are of one mind about the group's generation.
bool Executions::agree(std::unique_lock<std::mutex>& lock, std::int32_t group, std::string& why) {
  asked_.wait(lock, [&] { return !groups_[group].is_asking; });
  if (!groups_[group].is_in_doubt) {
    return true;
  }
  groups_[group].is_asking = true;
  std::int64_t number = groups_[group].generation + 1;
  lock.unlock();
  const bool is_agreed = greatest_of_all(group, &number, why);
  lock.lock();
  Group& asked = groups_[group];
  asked.is_asking = false;
  if (is_agreed) {
    asked.generation = number;
    asked.is_in_doubt = false;
  }
  asked_.notify_all();
  return is_agreed;
}

void Executions::add(std::int64_t run, ronde_ticket* ticket) {
  const std::lock_guard lock(mutex_);
  Execution& mine = execution(run);
  mine.under_way.insert(ticket);
  if (mine.has_failed) {
    ronde_cancel(ticket);
  }
}

void Executions::end(std::int64_t run, ronde_ticket* ticket) {
  const std::lock_guard lock(mutex_);
  if (const auto found = executions_.find(run); found != executions_.end()) {
    found->second.under_way.erase(ticket);
  }
}

std::string Executions::fail(std::int64_t run, const std::string& error, bool is_cause) {
  const std::lock_guard lock(mutex_);
  return fail_locked(run, error, is_cause);
}

std::string Executions::error_of(std::int64_t run) {
  const std::lock_guard lock(mutex_);
  const auto found = executions_.find(run);
  return found == executions_.end() ? std::string() : found->second.error;
}

std::string Executions::fail_locked(std::int64_t run, const std::string& error, bool is_cause) {
  Execution& failed = execution(run);
  if (!std::exchange(failed.has_failed, true)) {
    cancel_rest(failed);
  }
  if (failed.error.empty() || (is_cause && !failed.is_cause)) {
    failed.error = error;
    failed.is_cause = is_cause;
  }
  return failed.error;
}

/// Cancels what is under way, and puts this rank in doubt about the groups.
void Executions::cancel_rest(const Execution& failed) {
  for (ronde_ticket* const ticket : failed.under_way) {
    ronde_cancel(ticket);
  }
  // Of which groups XLA would still have begun calls is not known; those that were used together before are likely.
  std::vector<std::int32_t> left;
  for (const auto& [group, generation] : failed.generations) {
    left.push_back(group);
  }
  std::set<std::int32_t> seen(left.begin(), left.end());
  while (!left.empty()) {
    Group& group = groups_[left.back()];
    left.pop_back();
    group.is_in_doubt = true;
    for (const std::int32_t other : group.together) {
      if (seen.insert(other).second) {
        left.push_back(other);
      }
    }
  }
}

}  // namespace ronde::jax
