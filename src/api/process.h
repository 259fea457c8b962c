// What the C interface keeps for the whole process: the shared engine, whether this is a forked child, and this
// thread's last error. The only global state of the library.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/meeting_places.h"
#include "engine/process/world.h"

namespace ronde::api {

class Process {
 public:
  /// Made at first use and never destroyed: calls may come while the process exits.
  static Process& instance();

  /// Ok, or FORKED in a child of a process that had an engine.
  Status check_not_forked() const;

  Status init(const engine::JoinOptions& options);
  Status shutdown();
  /// The shared engine, null if there is none.
  std::shared_ptr<engine::Runner> shared() const;
  /// An engine of the caller's own.
  Result<std::shared_ptr<engine::Runner>> create(const engine::JoinOptions& options);
  /// As engine::make_group().
  Result<std::int32_t> make_group(engine::Runner& runner, const engine::JoinOptions& options,
                                  const std::vector<int>& ranks);
  /// Leaves the job without waiting, when the process exits.
  void leave_at_exit();
  /// From now on a forked child is refused everything: this process has threads or holds what others rely on.
  void watch_forks();

 private:
  Process() = default;

  void note_leaving(engine::Runner& runner, const std::string& store) const;

  RealClock clock_;
  std::mutex init_mutex_;  ///< one init or shutdown at a time; taken before mutex_
  mutable std::mutex mutex_;
  std::shared_ptr<engine::Runner> shared_;  ///< guarded by mutex_
  std::string note_store_;                  ///< where the launcher looks who leaves; read under either mutex
  MeetingPlaces places_;
  std::uint64_t shared_epoch_ = 0;  ///< guarded by init_mutex_
  /// Over all inits.
  const std::shared_ptr<engine::GroupIds> shared_group_ids_ = std::make_shared<engine::GroupIds>();
  std::uint64_t own_epoch_ = 0;                     ///< guarded by init_mutex_
  std::vector<std::weak_ptr<engine::Runner>> own_;  ///< guarded by mutex_
};

/// Keeps the error for ronde_last_error() of this thread; returns its code as the C interface's number.
std::int32_t report(const Status& status);
const Status& last_error();

}  // namespace ronde::api
