// What happens to a member (member.h): the rows of its table.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "agreement/sink.h"

namespace ronde::agreement {

/// A request whose place is known. Requires: its descriptor fits that member.
struct SubmitPlace {
  std::uint32_t bucket = 0;
  std::uint32_t place = 0;
  Flag copied = 0;  ///< the flag for which its data has been copied in; 0: not yet
  Nanoseconds deadline = kNever;
  MemoryPlace memory_place;
};
struct Submit {
  std::string name;
  Descriptor descriptor;
  Nanoseconds deadline = kNever;
  /// Of an unnamed call: what it is planned under; `name` is then its number and never comes again. Calls are told in
  /// the order in which the program makes them.
  std::string planning_name = {};
};
/// This rank will not make the unnamed call of this name: its arguments are refused. The coordinator is told besides.
struct Refused {
  std::string name;
};
/// All ranks have published the instance that this rank has published; in an ordered group it is launched besides.
/// step() says whether this rank's slice of it is reduced now (of an inline bucket all payloads are read);
/// step(Reduced) comes when it is.
struct AllPublished {
  std::uint32_t bucket = 0;
};
/// This rank's slice of it is finished, and its flag says so: it was stored as next_flag(bucket), with release order.
/// Which flag that is its backend knows; of a bucket without done words there is none. A rank that fails may have given
/// the instance up, and has stored nothing then.
struct Reduced {
  std::uint32_t bucket = 0;
};
/// All ranks have done it.
struct AllDone {
  std::uint32_t bucket = 0;
};
/// All ranks have published the instance, and not the same unnamed calls: nobody reduces it.
struct Voided {
  std::uint32_t bucket = 0;
};
struct PeerFrozen {
  std::uint32_t epoch = 0;
};
/// Every rank is frozen in this rank's epoch; read after that: the smallest instance published, by bucket id (0 beyond
/// the end).
struct AllFrozen {
  std::span<const std::uint64_t> published;
};
/// A reason of this rank's own to break.
struct LocalReason {
  Reason reason = Reason::abort;
  std::uint32_t bucket = 0;  ///< stall: which one stays half full
};
struct LogRead {
  control::Message entry;
};
/// What execute() began is over for this name, well or not.
struct Executed {
  const std::string& name;
};
struct JoinCalled {};
/// The engine shuts down: LEAVE goes out once this rank is out of the epoch.
struct LeaveCalled {};
struct Lost {
  const RankSet& ranks;
};
/// Every rank that is not lost is quiet about all of `lost`.
struct AllQuiet {
  Status reason;
};
/// The engine gives this group up: every request ends with this.
struct Close {
  Status reason;
};

}  // namespace ronde::agreement
