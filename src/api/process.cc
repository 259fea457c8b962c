#include "api/process.h"

#include <pthread.h>

#include <atomic>
#include <optional>

#include "backend/mpi/mpi.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/of_this_thread.h"
#include "engine/process/other_launchers.h"
#include "store/leave_note.h"

namespace ronde::api {

namespace {

/// Set in the child by fork(): its engine threads do not exist there, and locks may be held for ever.
std::atomic<bool> forked{false};

/// A call has failed since another rank had gone.
std::atomic<bool> let_down{false};

Status& last_error_of_thread() { return of_this_thread<Status, Process>(); }

/// The engine thread would wait for other ranks, who may wait for what only it can finish.
Status check_not_in_callback(const std::string& what) {
  return engine::Runner::in_callback()
             ? Status::error(Code::would_deadlock, what +
                                                       " inside a completion callback, whose thread would wait for "
                                                       "other ranks; do it in another thread")
             : Status();
}

/// Of the launcher, if it is what the ranks meet at: another store's folder may be gone, or about to go.
std::string launchers_store(const engine::JoinOptions& options) {
  const std::optional<std::string> store = options.store ? std::nullopt : environment_text("RONDE_STORE");
  return store.value_or("");
}

}  // namespace

Process& Process::instance() {
  static auto* process = new Process;
  return *process;
}

Status Process::check_not_forked() const {
  if (forked.load(std::memory_order_relaxed)) {
    return Status::error(Code::forked,
                         "this is a forked child of the process that called init: only that process is a rank of the "
                         "job. Call Ronde there, or start the child with exec (Python: the spawn start method)");
  }
  return {};
}

void Process::watch_forks() {
  static const bool once = [] {
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
    return true;
  }();
  static_cast<void>(once);
}

Status Process::init(const engine::JoinOptions& given) {
  if (shared()) {
    return {};
  }
  RONDE_RETURN_IF_ERROR(check_not_in_callback("init"));
  std::lock_guard init_lock(init_mutex_);
  if (shared()) {
    return {};
  }
  RONDE_ASSIGN_OR_RETURN(const engine::JoinOptions options, places_.complete(given));
  const std::string store = launchers_store(options);
  if (const Result<engine::Topology> topology = engine::topology_of(options)) {
    store::forget_leaving(store, topology.value().rank);
  }
  let_down.store(false, std::memory_order_relaxed);
  RONDE_RETURN_IF_ERROR(places_.serve_store(given));
  RONDE_ASSIGN_OR_RETURN(
      std::shared_ptr<engine::Runner> runner,
      engine::join_world(options, std::string(engine::kSharedMeeting), shared_epoch_ + 1, clock_, shared_group_ids_));
  if (const int size = runner->engine().topology().size; size == 1 && !options.size) {
    if (const std::optional<std::string> warning = engine::why_not_alone()) {
      log(LogLevel::warning, 0, *warning);
    }
  }
  ++shared_epoch_;  // only now: a rank whose init failed meets the others where they still wait
  watch_forks();
  std::lock_guard lock(mutex_);
  shared_ = std::move(runner);
  note_store_ = store;
  return {};
}

/// For the launcher, which looks when the process has ended.
void Process::note_leaving(engine::Runner& runner, const std::string& store) const {
  store::note_leaving(store, runner.engine().topology().rank, {clock_.now(), let_down.load(std::memory_order_relaxed)});
}

Status Process::shutdown() {
  std::lock_guard init_lock(init_mutex_);
  const std::shared_ptr<engine::Runner> runner = shared();
  if (!runner) {
    return {};
  }
  note_leaving(*runner, note_store_);
  Status status = runner->shutdown();
  if (status.code() == Code::would_deadlock) {
    return status;
  }
  std::lock_guard lock(mutex_);
  shared_.reset();
  return status;
}

std::shared_ptr<engine::Runner> Process::shared() const {
  std::lock_guard lock(mutex_);
  return shared_;
}

Result<std::shared_ptr<engine::Runner>> Process::create(const engine::JoinOptions& given) {
  // Under a name of their own ranks meet whatever else they have made: it counts for nothing, and two threads may do so
  // at once, in any order.
  RONDE_RETURN_IF_ERROR(check_not_in_callback("making an engine"));
  const bool is_named = given.meeting.has_value();
  std::unique_lock init_lock(init_mutex_, std::defer_lock);
  if (!is_named) {
    init_lock.lock();
  }
  RONDE_ASSIGN_OR_RETURN(const engine::JoinOptions options, places_.complete(given));
  RONDE_RETURN_IF_ERROR(places_.serve_store(given));
  RONDE_ASSIGN_OR_RETURN(std::shared_ptr<engine::Runner> runner,
                         engine::join_world(options, is_named ? "named/" + *options.meeting : "own",
                                            is_named ? 1 : own_epoch_ + 1, clock_));
  own_epoch_ += is_named ? 0 : 1;
  watch_forks();
  std::lock_guard lock(mutex_);
  std::erase_if(own_, [](const auto& weak) { return weak.expired(); });
  own_.push_back(runner);
  return runner;
}

Result<std::int32_t> Process::make_group(engine::Runner& runner, const engine::JoinOptions& options,
                                         const std::vector<int>& ranks) {
  RONDE_ASSIGN_OR_RETURN(const engine::JoinOptions completed, places_.complete(options));
  return engine::make_group(runner, completed, ranks);
}

void Process::leave_at_exit() {
  if (forked.load(std::memory_order_relaxed)) {
    return;
  }
  std::vector<std::shared_ptr<engine::Runner>> runners;
  std::string store;
  {
    std::lock_guard lock(mutex_);
    runners.push_back(shared_);
    store = note_store_;
    for (const auto& weak : own_) {
      runners.push_back(weak.lock());
    }
  }
  if (runners[0]) {
    note_leaving(*runners[0], store);
  }
  for (const auto& runner : runners) {
    if (runner) {
      runner->leave_now();
    }
  }
  backend::end_mpi_at_exit();  // before the server of PMI, which serves both, is told that this process goes
  places_.leave_at_exit();
}

std::int32_t report(const Status& status) {
  if (!status) {
    last_error_of_thread() = status;
    if (status.code() == Code::peer_left || status.code() == Code::peer_lost) {
      let_down.store(true, std::memory_order_relaxed);
    }
  }
  return static_cast<std::int32_t>(status.code());
}

const Status& last_error() { return last_error_of_thread(); }

namespace {

/// After main() and what the user registered with atexit. A process that exits in order has left the job in order.
__attribute__((destructor)) void leave_job_at_exit() { Process::instance().leave_at_exit(); }

}  // namespace

}  // namespace ronde::api
