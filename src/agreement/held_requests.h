// HeldRequests: what some members have requested and the coordinator has not answered, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/messages.h"
#include "observe/stall.h"

namespace ronde::agreement {

/// The requests of one name.
struct HeldRequest {
  std::vector<bool> has = {};                    ///< by member
  std::vector<Descriptor> descriptors = {};      ///< by member
  std::vector<std::string> call_sites = {};      ///< by member
  std::vector<std::string> planning_names = {};  ///< by member, of an unnamed call; none if no member has one
  int count = 0;
  std::uint64_t call_number = 0;  ///< of an unnamed call
  std::uint64_t asked = 0;        ///< the largest position of its requests
  std::uint64_t order = 0;        ///< of its first request among all
  Nanoseconds since = 0;
  Nanoseconds deadline = kNever;

  bool is_from(int member) const { return has[static_cast<std::size_t>(member)]; }
  /// Of the first member that has requested it. Requires: one has.
  const Descriptor& first_descriptor() const;
  /// Of the members that have requested it.
  std::set<std::string> all_planning_names() const;
};

class HeldRequests {
 public:
  explicit HeldRequests(int members) : members_(static_cast<std::size_t>(members)) {}

  /// Adds the member's request to those of its name, which are returned; null if it has one there already.
  const HeldRequest* add(int member, control::RequestMessage request, Nanoseconds now);
  const HeldRequest* find(const std::string& name) const;
  /// What is held of this name, which is not any more; none if nothing is.
  std::optional<HeldRequest> take(const std::string& name);
  /// Requests of unnamed calls under these planning names are held no more. Where the members' planning names differ a
  /// call stays held for the others.
  void forget_calls(const std::set<std::string>& planning_names);
  void clear();

  bool is_empty() const { return held_.empty(); }
  /// The names that it is true of, in the order in which they were first requested.
  std::vector<std::string> names_where(const std::function<bool(const HeldRequest&)>& condition) const;
  bool any_from(int member) const;
  /// When the first one's time is up; kNever if none has a limit.
  Nanoseconds next_deadline() const { return deadlines_.empty() ? kNever : deadlines_.begin()->first; }
  /// The name whose time was up first; none if none's is.
  std::optional<std::string> overdue(Nanoseconds now) const;
  /// For the stall report, oldest first. `ranks`: of the members; nobody waits for those that have `joined`.
  std::vector<observe::Waiting> waiting(const std::vector<int>& ranks, const std::vector<bool>& joined) const;

 private:
  void forget_deadline(const std::string& name, const HeldRequest& held);

  const std::size_t members_;
  std::uint64_t orders_ = 0;
  std::unordered_map<std::string, HeldRequest> held_;
  std::set<std::pair<Nanoseconds, std::string>> deadlines_;  ///< of those that have one
};

}  // namespace ronde::agreement
