// CoordinatorRole: what one rank of a group does besides being a member of it: it hears the requests of all, and gives
// the answers out as a log (agreement/coordinator.h).
#pragma once

#include <optional>
#include <utility>

#include "agreement/coordinator.h"
#include "base/clock.h"
#include "base/status.h"
#include "control/control.h"
#include "observe/observer.h"
#include "observe/stall.h"

namespace ronde::engine {

/// Of every rank; on all but one it has no coordinator. Under the progress lock.
class CoordinatorRole {
 public:
  /// `group` must outlive this. `stall`: how long a request waits before the log says for whom.
  CoordinatorRole(const Group& group, Nanoseconds stall) : group_(group), stall_(stall) {}

  /// From now on this rank is the one.
  void take(control::SettingsEntry settings, BucketLayout* layout, MayReduceAt may_reduce_at = {}) {
    coordinator_.emplace(group_, settings, layout, std::move(may_reduce_at));
  }
  explicit operator bool() const { return coordinator_.has_value(); }
  agreement::Coordinator& operator*() { return *coordinator_; }
  agreement::Coordinator* operator->() { return &*coordinator_; }
  void observe(observe::Observer* observer) { observer_ = observer; }

  /// Takes the message if it is one for the coordinator, else none. INTERNAL if there is none here.
  std::optional<Status> read(int from, control::Message& message, Nanoseconds now);
  /// Sends every member what has been answered since the last time. True if that was something.
  bool publish(control::Control& control);
  /// Fails what has had its time; `rank`: who logs what has waited long.
  void check_time(Nanoseconds now, int rank);
  /// When check_time() has something to do.
  Nanoseconds next_timer() const;

 private:
  const Group& group_;
  std::optional<agreement::Coordinator> coordinator_;
  observe::StallReport stall_;
  observe::Observer* observer_ = nullptr;
};

}  // namespace ronde::engine
