#include "executions.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace ronde::jax {

namespace {

/// So many are remembered, and those that have not made all their calls: of others XLA begins nothing any more.
constexpr std::size_t kMost = 256;

/// A rank that others come to waits so many limits longer.
constexpr int kPatience = 3;

/// So often, and so far apart, a rank asks again whose others are in another program: another thread of this process
/// may be the one that they wait for.
constexpr int kElsewhere = 20;
constexpr std::chrono::milliseconds kPause{10};

/// How often init() has run; -1 if there is no job.
std::int64_t epoch_now() {
  ronde_topology topology{};
  topology.struct_size = sizeof(topology);
  return ronde_get_topology(nullptr, &topology) == RONDE_OK ? static_cast<std::int64_t>(topology.epoch) : -1;
}

/// Replaces each number, of 8 bytes, by the greatest of the ranks'.
ronde_status greatest_of_all(std::int64_t group, void* numbers, std::size_t bytes) {
  static constexpr std::string_view kName = "ronde.jax.meeting";
  const auto count = static_cast<std::int64_t>(bytes / sizeof(std::int64_t));
  ronde_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.data = numbers;
  tensor.shape = &count;
  tensor.ndim = 1;
  tensor.dtype = RONDE_INT64;
  ronde_request request{};
  request.struct_size = sizeof(request);
  request.op = RONDE_ALLREDUCE;
  request.group = static_cast<std::int32_t>(group);
  request.name = kName.data();
  request.name_bytes = kName.size();
  request.inputs = &tensor;
  request.outputs = &tensor;
  request.count = 1;
  request.reduce_op = RONDE_MAX;
  request.prescale = request.postscale = 1.0;
  return ronde_execute(nullptr, &request, -1.0, nullptr);
}

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
    begun_ = ++time_;
    first_calls_.clear();
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
  const std::vector<std::int64_t> given_up = open(beginning);
  Execution& before = execution(run);
  for (const Place& each : before.places) {
    if ((each.always_calls || each.group == group) && before.counted.insert(each.group).second) {
      ++family(each).programs[each.program].executions;
    }
  }
  if (family(place).programs[place.program].is_lost) {
    return {fail_locked(run,
                        "an earlier execution of this compiled program has ended on this rank before its first call, "
                        "since a callback has raised or an argument held an error, and whether other ranks have made "
                        "calls in it is not known: shutdown() and init() on all ranks",
                        true),
            {},
            given_up};
  }
  if (beginning.device && family(place).device.value_or(*beginning.device) != *beginning.device) {
    return {fail_locked(run, on_another_device(*beginning.device, *family(place).device), true), {}, given_up};
  }
  family(place).device = beginning.device;
  if (!before.has_failed && !before.generations.contains(group) && !agree(lock, run, place, why)) {
    const std::string error =
        "an earlier execution of a compiled program has failed on this rank, and the ranks could not agree to go on: " +
        why;
    return {fail_locked(run, error, true, &place), {}, given_up};
  }
  Execution& mine = execution(run);
  if (mine.has_failed) {
    return {mine.error, {}, given_up};
  }
  const std::int64_t generation = mine.generations.try_emplace(group, family(place).generation).first->second;
  return {{}, generation == 0 ? std::string() : "~after-" + std::to_string(generation), given_up};
}

std::vector<std::int64_t> Executions::open(const Beginning& beginning) {
  std::vector<std::int64_t> given_up;
  Execution& mine = execution(beginning.run);
  if (!mine.places.empty()) {
    return given_up;
  }
  mine.places.assign(beginning.places.begin(), beginning.places.end());
  mine.given.assign(beginning.given.begin(), beginning.given.end());
  mine.launch = beginning.launch;
  for (const auto& [program, run] : entered_) {
    const auto found = executions_.find(run);
    if (run == beginning.run || found == executions_.end() || found->second.has_failed) {
      continue;
    }
    const Execution& other = found->second;
    if (other.launch && other.launch == mine.launch) {
      continue;  // parts of one execution of XLA's, each with an order of its own
    }
    if (std::ranges::find_first_of(other.given, mine.given) != other.given.end() ||
        std::ranges::find_first_of(other.places, mine.places) != other.places.end()) {
      given_up.push_back(run);
    }
  }
  for (const std::int64_t run : given_up) {
    give_up_locked(run);
  }
  first_calls_[mine.places] = ++time_;
  return given_up;
}

std::int64_t Executions::now() {
  const std::lock_guard lock(mutex_);
  follow_init();
  return ++time_;
}

void Executions::ended_in_error(std::span<const Place> places, std::span<const std::int64_t> given, bool is_of_argument,
                                std::int64_t started, const std::string& error) {
  const std::lock_guard lock(mutex_);
  follow_init();
  std::vector<Place> program(places.begin(), places.end());
  const auto found = first_calls_.find(program);
  const bool has_made_calls = found != first_calls_.end() && found->second > started;
  if (started < begun_ || has_made_calls) {
    return;
  }
  const std::int64_t run = next_run();
  Execution& mine = execution(run);
  mine.places = std::move(program);
  mine.given.assign(given.begin(), given.end());
  mine.is_known = !is_of_argument;
  fail_locked(run, error, true);
}

/// This execution comes to no more calls: it counts where it would have made some. Where it might not have the program
/// is lost.
void Executions::count_rest(Execution& mine) {
  for (const Place& each : mine.places) {
    if (mine.epoch == epoch_ && mine.counted.insert(each.group).second) {
      Count& count = family(each).programs[each.program];
      ++count.executions;
      count.is_lost |= !each.always_calls || !mine.is_known;
    }
  }
}

bool Executions::needs_to_ask(const Place& place) {
  Family& asked = family(place);
  return asked.is_in_doubt || asked.programs[place.program].aligned != asked.generation;
}

/// The first call of this execution in the group is to begin. True once the ranks are of one mind about the family's
/// generation, and in the same execution.
bool Executions::agree(std::unique_lock<std::mutex>& lock, std::int64_t run, const Place& place, std::string& why) {
  int patience = 0;
  for (int elsewhere = 0;;) {
    asked_.wait(lock, [&] { return !asking_.contains(place.group); });
    const Execution& mine = execution(run);
    if (mine.has_failed) {
      why = mine.error;
      return false;
    }
    if (mine.generations.contains(static_cast<std::int32_t>(place.group)) || !needs_to_ask(place)) {
      return true;  // another call of it was before, or there was no failure
    }
    bool has_timed_out = false;
    switch (ask(lock, place, why, has_timed_out)) {
      case Met::here: return true;
      case Met::again: break;
      case Met::others: patience = kPatience; break;
      case Met::behind: why = "this rank is behind: others are in a later execution"; return false;
      case Met::elsewhere:
        if (++elsewhere > kElsewhere) {
          why = "others are in another program";
          return false;
        }
        asked_.wait_for(lock, kPause);
        break;
      case Met::failed:
        if (!has_timed_out || --patience < 0) {
          return false;
        }
        break;
    }
  }
}

Executions::Met Executions::ask(std::unique_lock<std::mutex>& lock, const Place& place, std::string& why,
                                bool& has_timed_out) {
  const Family& before = family(place);
  const std::int64_t mine = family(place).programs[place.program].executions;
  Said said{before.generation + (before.is_in_doubt ? 1 : 0), place.program, -place.program, mine, -mine};
  asking_.insert(place.group);
  lock.unlock();
  const ronde_status status = greatest_of_all(place.group, &said, sizeof(said));
  const bool is_missed = status != RONDE_OK && is_for_a_missed_call(status);
  if (status != RONDE_OK) {
    why = ronde_last_error();
  }
  lock.lock();
  asking_.erase(place.group);
  asked_.notify_all();
  if (status != RONDE_OK) {
    has_timed_out = status == RONDE_TIMED_OUT;
    return is_missed ? Met::again : Met::failed;  // missed: the others are a question further
  }
  return follow(place, said);
}

/// What the ranks have said is done on all of them.
Executions::Met Executions::follow(const Place& place, const Said& said) {
  Family& asked = family(place);
  Count& count = asked.programs[place.program];
  const bool is_one_program = said.program == -said.not_program;
  if (is_one_program) {
    asked.generation = said.generation;
    count.aligned = said.execution == -said.not_execution ? said.generation : -1;
  }
  if (is_one_program && count.aligned == said.generation) {
    asked.is_in_doubt = false;
    return Met::here;
  }
  for (auto& [id, each] : families_) {  // the ranks are apart, perhaps in all programs
    each.is_in_doubt |= id.first == place.group;
  }
  if (said.program != place.program) {
    return Met::elsewhere;
  }
  return is_one_program && said.execution != count.executions ? Met::behind : Met::others;
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
  give_up_locked(run);
}

void Executions::give_up_locked(std::int64_t run) {
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

/// `unmade`: where its calls were not agreed on, so that this rank has made none.
std::string Executions::fail_locked(std::int64_t run, const std::string& error, bool is_cause, const Place* unmade) {
  Execution& failed = execution(run);
  if (!std::exchange(failed.has_failed, true)) {
    count_rest(failed);
    cancel_rest(failed, unmade);
  }
  if (failed.error.empty() || (is_cause && !failed.is_cause)) {
    failed.error = error;
    failed.is_cause = is_cause;
  }
  return failed.error;
}

/// Cancels what is under way, and puts this rank in doubt about the calls of the program.
void Executions::cancel_rest(const Execution& failed, const Place* unmade) {
  for (ronde_ticket* const ticket : failed.under_way) {
    ronde_cancel(ticket);
  }
  if (failed.epoch != epoch_) {
    return;
  }
  for (const Place& each : failed.places) {
    const auto made = failed.generations.find(static_cast<std::int32_t>(each.group));
    const bool is_earlier = made != failed.generations.end() && made->second < family(each).generation;
    if (!is_earlier && (unmade == nullptr || each != *unmade)) {
      family(each).is_in_doubt = true;
    }
  }
}

}  // namespace ronde::jax
