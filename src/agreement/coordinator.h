// Coordinator: the half of agreement that lives in one rank of a group. It collects what every member requests, checks
// that they match, and answers all of them in one totally ordered log (docs/agreement.md).
//
// No clock, no memory but its own, no thread: events go in, log entries come out. Every answer about a name is given
// when the n-th request of that name has come from every member, or when its time is up.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/messages.h"
#include "observe/stall.h"
#include "types/group.h"

namespace ronde::agreement {

class Coordinator {
 public:
  Coordinator(Group group, control::SettingsEntry settings);

  /// `member` is an index in the group. A second request of a name that this member already waits for is INTERNAL (the
  /// pending table of that rank should have refused it).
  Status on_request(int member, control::RequestMessage request, Nanoseconds now);
  /// The member submits nothing any more: every name that it has not submitted fails now. It has left (a LEFT entry)
  /// once the names that it has submitted are answered, or at once if it does not wait for that (`final`).
  void on_leave(int member, bool final);
  /// Fails every name whose time is up, naming the members that have not come.
  void on_time(Nanoseconds now);
  /// When on_time() has something to do at the earliest; kNever if nothing waits under a limit.
  Nanoseconds next_deadline() const;

  /// The entries since the last call, to be sent to every member in this order. What became ready since then is one
  /// EXEC entry per run of ready names: the unit that the planner fuses within.
  std::vector<control::Message> take_log();

  /// What waits and for whom, oldest first, for the stall report.
  std::vector<observe::Waiting> waiting() const;
  bool is_waiting() const { return !held_.empty(); }
  bool all_left() const { return static_cast<int>(left_.size()) == group_.size(); }

 private:
  struct Held {
    std::vector<bool> has;                        ///< by member
    std::vector<Descriptor> descriptors;          ///< by member
    int count = 0;
    Nanoseconds since = 0;
    Nanoseconds deadline = kNever;
  };

  void answer(const std::string& name, Held& held);
  void append_error(const std::string& name, Code code, int failed_rank, std::string text);
  std::vector<int> missing_ranks(const Held& held) const;
  /// Fails a name that a leaving member has not submitted; true if it did.
  bool fail_if_abandoned(const std::string& name, const Held& held);
  void note_who_has_left();
  void forget_deadline(const std::string& name, const Held& held);
  void log_left(int member);

  Group group_;
  std::unordered_map<std::string, Held> held_;
  /// By name the number of ERROR entries up to and including the last that concerned it: a request with a smaller
  /// label was sent before its rank read that entry, which will fail it there; it must not be held here.
  std::unordered_map<std::string, std::uint64_t> moved_at_;
  std::uint64_t errors_ = 0;  ///< ERROR entries logged so far; a rank's label counts those it has read
  std::set<std::pair<Nanoseconds, std::string>> deadlines_;  ///< of the names held, those that have one
  std::set<int> leaving_;  ///< have said LEAVE, wait for what they have submitted
  std::set<int> left_;     ///< LEFT is logged
  std::vector<control::Message> log_;
};

}  // namespace ronde::agreement
