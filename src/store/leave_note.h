// When a rank of this host has begun to leave its job: a note beside the store's socket, for the launcher.
//
// A rank whose program fails leaves before its process ends: its exception is printed, then the interpreter exits,
// which takes long. The others' calls fail at once, and their processes may well end first. So the order in which
// processes end does not tell who failed first. A rank whose own call had
// failed because another rank had gone did not fail first.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace ronde::store {

struct LeaveNote {
  Nanoseconds moment = 0;  ///< by RealClock, which all processes of a host share
  bool let_down = false;   ///< a call of this rank had failed since another had left or died

  bool operator==(const LeaveNote&) const = default;
};

/// Notes beside the store at `address` ("unix:/folder/socket") that the rank leaves. Does nothing at another address,
/// and where it cannot write.
void note_leaving(const std::string& address, int rank, const LeaveNote& note);

/// The rank is in a job again.
void forget_leaving(const std::string& address, int rank);

/// What the rank has noted, in the folder of the store's socket; nothing if it has not.
std::optional<LeaveNote> noted_leaving(const std::string& folder, int rank);

}  // namespace ronde::store
