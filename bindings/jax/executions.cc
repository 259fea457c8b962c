#include "executions.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ronde::jax {

namespace {

/// So many are remembered, and those that have not made all their calls: of others XLA begins nothing any more.
constexpr std::size_t kMost = 256;

/// How often init() has run; -1 if there is no job.
std::int64_t epoch_now() {
  ronde_topology topology{};
  topology.struct_size = sizeof(topology);
  return ronde_get_topology(nullptr, &topology) == RONDE_OK ? static_cast<std::int64_t>(topology.epoch) : -1;
}

/// What a rank says, and what the greatest of all ranks' is.
struct Said {
  std::int64_t generation;
  std::int64_t execution;
  std::int64_t before;  ///< -execution
};

/// The greatest of what the ranks say.
ronde_status greatest_of_all(std::int32_t group, Said& said) {
  static constexpr char kName[] = "ronde.jax.generation";
  static constexpr std::int64_t kCount = sizeof(Said) / sizeof(std::int64_t);
  ronde_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.data = &said;
  tensor.shape = &kCount;
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
  return ronde_execute(nullptr, &request, -1.0, nullptr);
}

/// After a call that has failed: others have waited in vain for a call of this rank's that it has not made.
bool is_for_a_missed_call(ronde_status status) {
  ronde_error_info info{};
  info.struct_size = sizeof(info);
  ronde_topology topology{};
  topology.struct_size = sizeof(topology);
  return status == RONDE_TIMED_OUT && ronde_last_error_info(&info) == RONDE_OK &&
         ronde_get_topology(nullptr, &topology) == RONDE_OK && info.failed_rank == topology.rank;
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
    found->second.epoch = epoch_;
    newest_.push_back(run);
    for (std::size_t kept = 0; newest_.size() > kMost && kept < kMost;) {
      const std::int64_t oldest = newest_.front();
      newest_.pop_front();
      const bool is_entered =
          std::any_of(entered_.begin(), entered_.end(), [&](const auto& entered) { return entered.second == oldest; });
      if (executions_.at(oldest).under_way.empty() && !is_entered) {
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
    entered_.clear();
    for (auto& [id, group] : groups_) {
      group.executions = 0;
      group.generation = 0;
      group.is_in_doubt = false;
    }
  }
}

Executions::Answer Executions::begin(std::int64_t run, std::int32_t group, std::span<const std::int64_t> groups) {
  std::unique_lock lock(mutex_);
  std::string why;
  Execution& before = execution(run);
  if (before.groups.empty()) {
    for (const std::int64_t each : groups) {
      before.groups.push_back(static_cast<std::int32_t>(each));
      ++groups_[before.groups.back()].executions;
    }
  }
  if (!before.has_failed && !before.generations.contains(group) && !agree(lock, run, group, why)) {
    const std::string error =
        "an earlier execution of a compiled program has failed on this rank, and the ranks could not agree to go on: " +
        why;
    return {fail_locked(run, error, true), {}};
  }
  Execution& mine = execution(run);
  if (mine.has_failed) {
    return {mine.error, {}};
  }
  const std::int64_t generation = mine.generations.try_emplace(group, groups_[group].generation).first->second;
  return {{}, generation == 0 ? std::string() : "~after-" + std::to_string(generation)};
}

/// The first call of this execution in the group is to begin. True once the ranks are of one mind about the group's
/// generation.
bool Executions::agree(std::unique_lock<std::mutex>& lock, std::int64_t run, std::int32_t group, std::string& why) {
  asked_.wait(lock, [&] { return !groups_[group].is_asking; });
  const Execution& mine = execution(run);
  if (mine.has_failed) {
    why = mine.error;
    return false;
  }
  if (mine.generations.contains(group)) {
    return true;  // another call of it was before
  }
  while (groups_[group].is_in_doubt) {
    if (!ask(lock, group, why)) {
      return false;
    }
  }
  return true;
}

/// False: this execution is not to go on. Else the group may be in doubt yet.
bool Executions::ask(std::unique_lock<std::mutex>& lock, std::int32_t group, std::string& why) {
  groups_[group].is_asking = true;
  const std::int64_t mine = groups_[group].executions;
  Said said{groups_[group].generation + 1, mine, -mine};
  lock.unlock();
  const ronde_status status = greatest_of_all(group, said);
  const bool is_missed = status != RONDE_OK && is_for_a_missed_call(status);
  if (status != RONDE_OK) {
    why = ronde_last_error();
  }
  lock.lock();
  Group& asked = groups_[group];
  asked.is_asking = false;
  asked_.notify_all();
  if (status != RONDE_OK) {
    return is_missed;  // the others are a question further
  }
  asked.generation = said.generation;
  if (said.execution != mine) {
    why = "this rank is behind: others are in a later execution";
    return false;
  }
  asked.is_in_doubt = said.before != -mine;
  return true;
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

std::optional<std::int64_t> Executions::enter(std::uint64_t program, std::int64_t run) {
  const std::lock_guard lock(mutex_);
  follow_init();
  const auto [found, is_new] = entered_.try_emplace(program, run);
  const std::int64_t before = std::exchange(found->second, run);
  return is_new || before == run ? std::nullopt : std::optional<std::int64_t>(before);
}

void Executions::leave(std::uint64_t program, std::int64_t run) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entered_.find(program); found != entered_.end() && found->second == run) {
    entered_.erase(found);
  }
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
  if (failed.epoch == epoch_) {
    for (const std::int32_t group : failed.groups) {
      groups_[group].is_in_doubt = true;
    }
  }
}

}  // namespace ronde::jax
