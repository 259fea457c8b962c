// Where some ranks of a job run, as the launcher sees it: it tells what becomes of them, and passes signals on.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/guardian_channel.h"
#include "store/leave_note.h"

namespace ronde::launch {

struct RankHostEvent {
  Report report;                         ///< moments are the launcher's
  std::optional<store::LeaveNote> note;  ///< of a rank that has ended
  /// Not empty: the host is out of the launcher's reach, or what watched over its ranks is; why. No process of the job
  /// that could be ended is left there, or will be before long. Its last event.
  std::string lost;
};

class RankHost {
 public:
  virtual ~RankHost() = default;
  RankHost(const RankHost&) = delete;
  RankHost& operator=(const RankHost&) = delete;

  /// For sentences.
  virtual const std::string& name() const = 0;
  /// Adds what has to be polled. Requires: hear() gets the same entries after the poll.
  virtual void watch(std::vector<pollfd>& entries) = 0;
  /// When hear() has to be called next though nothing is ready.
  virtual Nanoseconds next_deadline() const = 0;
  /// What has happened, in its order. Report::empty, or a loss, is the last of a host.
  virtual std::vector<RankHostEvent> hear(const std::vector<pollfd>& entries, Nanoseconds now) = 0;
  virtual void command(const Command& order) = 0;
  /// Lets go of a host that has told its last event.
  virtual void finish() = 0;

 protected:
  RankHost() = default;
};

}  // namespace ronde::launch
