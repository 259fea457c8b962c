#include "executions.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ronde::jax {

namespace {

/// So many are remembered, and those that have not made all their calls: of others XLA begins nothing any more.
constexpr std::size_t kMost = 256;

/// So many limits longer a rank waits for others that it knows to be behind: if it went on, too, they might stay
/// behind.
constexpr int kPatience = 2;

/// How often init() has run; -1 if there is no job.
std::int64_t epoch_now() {
  ronde_topology topology{};
  topology.struct_size = sizeof(topology);
  return ronde_get_topology(nullptr, &topology) == RONDE_OK ? static_cast<std::int64_t>(topology.epoch) : -1;
}

/// Replaces each number by the greatest of the ranks'.
ronde_status greatest_of_all(std::int64_t group, const std::string& name, std::span<std::int64_t> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  ronde_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.data = numbers.data();
  tensor.shape = &count;
  tensor.ndim = 1;
  tensor.dtype = RONDE_INT64;
  ronde_request request{};
  request.struct_size = sizeof(request);
  request.op = RONDE_ALLREDUCE;
  request.group = static_cast<std::int32_t>(group);
  request.name = name.data();
  request.name_bytes = name.size();
  request.inputs = &tensor;
  request.outputs = &tensor;
  request.count = 1;
  request.reduce_op = RONDE_MAX;
  request.prescale = request.postscale = 1.0;
  return ronde_execute(nullptr, &request, -1.0, nullptr);
}

std::string name_of(std::int64_t number) { return number == 0 ? std::string() : "." + std::to_string(number); }

std::string on_another_device(std::int64_t now, std::int64_t before) {
  return "the program makes calls of Ronde and runs on device " + std::to_string(now) +
         " of this process, where it, or another with the same names, has run on device " + std::to_string(before) +
         ": XLA may run them in another order on each rank; let a process run its calls on one device";
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
    for (auto& [id, family] : families_) {
      for (auto& [program, count] : family.programs) {
        count.executions = 0;
        count.aligned = 0;
        count.is_lost = false;
      }
      family.generation = 0;
      family.is_in_doubt = false;
      family.device.reset();
    }
  }
}

std::int64_t Executions::next_run() {
  static constinit std::atomic<std::int64_t> runs = 0;
  return 1 + runs.fetch_add(1, std::memory_order_relaxed);
}

Executions::Answer Executions::begin(const Beginning& beginning, std::int32_t group) {
  const std::int64_t run = beginning.run;
  const auto found = std::find_if(beginning.places.begin(), beginning.places.end(),
                                  [&](const Place& each) { return each.group == group; });
  if (found == beginning.places.end()) {
    throw std::invalid_argument("ronde.jax: package and libronde_jax.so must be of one release");
  }
  const Place place = *found;
  std::unique_lock lock(mutex_);
  std::string why;
  open_locked(beginning);
  Execution& before = execution(run);
  if (!std::exchange(before.is_counted, true)) {
    for (const Place& each : before.places) {
      ++family(each).programs[each.program].executions;
    }
  }
  if (family(place).programs[place.program].is_lost) {
    return {fail_locked(run,
                        "an earlier execution of this compiled program has ended on this rank before its first call, "
                        "and whether it would have come to one is not known: shutdown() and init() on all ranks",
                        true),
            {}};
  }
  if (beginning.device && family(place).device.value_or(*beginning.device) != *beginning.device) {
    return {fail_locked(run, on_another_device(*beginning.device, *family(place).device), true), {}};
  }
  family(place).device = beginning.device;
  if (!before.has_failed && !before.generations.contains(group)) {
    if (const Agreed agreed = agree(lock, run, place, why); agreed != Agreed::yes) {
      const std::string error =
          "an earlier execution of a compiled program has failed on this rank, and the ranks could not agree to go "
          "on: " +
          why;
      return {fail_locked(run, error, true, agreed == Agreed::is_behind ? &place : nullptr), {}};
    }
  }
  Execution& mine = execution(run);
  if (mine.has_failed) {
    return {mine.error, {}};
  }
  const std::int64_t generation = mine.generations.try_emplace(group, family(place).generation).first->second;
  return {{}, generation == 0 ? std::string() : "~after-" + std::to_string(generation)};
}

void Executions::open(const Beginning& beginning) {
  const std::lock_guard lock(mutex_);
  open_locked(beginning);
}

void Executions::open_locked(const Beginning& beginning) {
  Execution& mine = execution(beginning.run);
  if (!mine.places.empty()) {
    return;
  }
  mine.places.assign(beginning.places.begin(), beginning.places.end());
  mine.always_calls = beginning.always_calls;
  const std::int64_t left_out = beginning.launch ? launches_.left_out(beginning.program, *beginning.launch, epoch_) : 0;
  if (left_out > 0) {
    miss(mine, left_out);
  }
}

/// So many executions of this one's program have ended on this rank before their first call.
void Executions::miss(const Execution& mine, std::int64_t executions) {
  for (const Place& each : mine.places) {
    Family& missed = family(each);
    missed.is_in_doubt = true;
    missed.programs[each.program].executions += executions;
    missed.programs[each.program].is_lost |= !mine.always_calls;
  }
}

/// The first call of this execution in the group is to begin. `yes`: the ranks are of one mind about the family's
/// generation, and in the same execution.
Executions::Agreed Executions::agree(std::unique_lock<std::mutex>& lock, std::int64_t run, const Place& place,
                                     std::string& why) {
  for (;;) {
    asked_.wait(lock, [&] { return !family(place).is_asking && !family(place).programs[place.program].is_asking; });
    const Execution& mine = execution(run);
    if (mine.has_failed) {
      why = mine.error;
      return Agreed::no;
    }
    if (mine.generations.contains(static_cast<std::int32_t>(place.group))) {
      return Agreed::yes;  // another call of it was before
    }
    if (family(place).is_in_doubt) {
      if (!ask_generation(lock, place, why)) {
        return Agreed::no;
      }
    } else if (family(place).programs[place.program].aligned == family(place).generation) {
      return Agreed::yes;
    } else if (const Agreed agreed = ask_execution(lock, place, why); agreed != Agreed::yes) {
      return agreed;
    }
  }
}

/// False: this execution is not to go on.
bool Executions::ask_generation(std::unique_lock<std::mutex>& lock, const Place& place, std::string& why) {
  family(place).is_asking = true;
  std::array<std::int64_t, 3> said{family(place).generation + 1, place.program, -place.program};
  lock.unlock();
  const ronde_status status = greatest_of_all(place.group, "ronde.jax.generation" + name_of(place.family), said);
  const bool is_missed = status != RONDE_OK && is_for_a_missed_call(status);
  if (status != RONDE_OK) {
    why = ronde_last_error();
  }
  lock.lock();
  Family& asked = family(place);
  asked.is_asking = false;
  asked_.notify_all();
  if (status != RONDE_OK) {
    return is_missed;  // the others are a question further
  }
  asked.generation = said[0];
  if (said[1] != place.program) {
    why = "others have come to another program";
    return false;
  }
  asked.is_in_doubt = said[2] != -place.program;  // where the executions of these fail, and they come to others
  return true;
}

/// `yes`: this execution may go on, once it is known to be the others', or once that has been asked again.
Executions::Agreed Executions::ask_execution(std::unique_lock<std::mutex>& lock, const Place& place, std::string& why) {
  Count& count = family(place).programs[place.program];  // stays where it is
  count.is_asking = true;
  const std::int64_t generation = family(place).generation;
  const std::int64_t mine = count.executions;
  std::array<std::int64_t, 2> said{mine, -mine};
  lock.unlock();
  const ronde_status status =
      greatest_of_all(place.group, "ronde.jax.execution" + name_of(place.program) + name_of(generation), said);
  const bool is_missed = status != RONDE_OK && is_for_a_missed_call(status);
  if (status != RONDE_OK) {
    why = ronde_last_error();
  }
  lock.lock();
  count.is_asking = false;
  asked_.notify_all();
  if (status != RONDE_OK) {
    const bool goes_on = is_missed || (status == RONDE_TIMED_OUT && count.patience-- > 0);
    return goes_on ? Agreed::yes : Agreed::no;
  }
  count.patience = 0;
  if (said[0] != mine) {
    why = "this rank is behind: others are in a later execution";
    return Agreed::is_behind;
  }
  if (said[1] == -mine) {
    count.aligned = generation;
  } else {
    count.patience = kPatience;
  }
  return Agreed::yes;
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

void Executions::give_up(std::int64_t run) {
  const std::lock_guard lock(mutex_);
  Execution& mine = execution(run);
  if (!mine.is_counted && mine.epoch == epoch_) {
    miss(mine, 1);
  }
  fail_locked(run, "an earlier execution of this compiled program has ended before its calls", true);
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

/// `behind`: where others are in a later execution, so that this one's calls there are made nowhere.
std::string Executions::fail_locked(std::int64_t run, const std::string& error, bool is_cause, const Place* behind) {
  Execution& failed = execution(run);
  if (!std::exchange(failed.has_failed, true)) {
    cancel_rest(failed, behind);
  }
  if (failed.error.empty() || (is_cause && !failed.is_cause)) {
    failed.error = error;
    failed.is_cause = is_cause;
  }
  return failed.error;
}

/// Cancels what is under way, and puts this rank in doubt about the calls of the program.
void Executions::cancel_rest(const Execution& failed, const Place* behind) {
  for (ronde_ticket* const ticket : failed.under_way) {
    ronde_cancel(ticket);
  }
  if (failed.epoch != epoch_) {
    return;
  }
  for (const Place& each : failed.places) {
    const auto made = failed.generations.find(static_cast<std::int32_t>(each.group));
    const bool is_earlier = made != failed.generations.end() && made->second < family(each).generation;
    if (!is_earlier && (behind == nullptr || each != *behind)) {
      family(each).is_in_doubt = true;
    }
  }
}

}  // namespace ronde::jax
