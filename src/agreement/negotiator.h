// Negotiator: the half of agreement that lives in every rank, one per group: sends this rank's requests to the
// coordinator and reads the coordinator's log (docs/agreement.md).
//
// No clock, no memory but its own, no thread. State per name: none, or sent (submitted here, not yet answered), and
// beside it the errors this rank owes: a request that other ranks saw time out, and that this rank has yet to make,
// must fail when it comes, or it would meet the others' next one, which is data of another step.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/messages.h"
#include "types/group.h"

namespace ronde::agreement {

class Negotiator {
 public:
  explicit Negotiator(Group group) : group_(std::move(group)) {}

  /// A new request of this rank. Ok: `message` is to be sent to the coordinator. An error: the request is over, with
  /// this error, and nothing is sent. Requires: the name is not outstanding.
  Status on_submit(const std::string& name, Descriptor descriptor, Nanoseconds deadline, Nanoseconds timeout,
                   std::optional<control::RequestMessage>& message);

  /// What reading one log entry came to.
  struct Outcome {
    std::vector<control::ExecEntry::Item> agreed;             ///< to be planned together, in this order
    std::vector<std::pair<std::string, Status>> failed;       ///< these requests are over
    std::optional<control::SettingsEntry> settings;
  };
  /// Requires: an entry that only the coordinator sends. INTERNAL if an EXEC names what this rank never submitted.
  Result<Outcome> on_log(const control::Message& entry, int own_member);

  /// Every outstanding request is over with this error (death, shutdown); returns their names. Later submits get it
  /// too.
  std::vector<std::string> close(Status reason);

  bool all_left() const { return all_left_; }
  bool self_left() const { return self_left_; }
  /// Ok, or why nothing can be submitted any more.
  const Status& closed() const { return closed_; }
  bool is_waiting() const { return !sent_.empty(); }
  /// A request that has had no answer `grace` after its deadline, if there is one.
  std::optional<std::string> overdue(Nanoseconds now, Nanoseconds grace) const;
  std::uint64_t label() const { return label_; }

 private:
  Group group_;
  std::unordered_map<std::string, Nanoseconds> sent_;  ///< with the deadline of each
  std::unordered_map<std::string, std::deque<Status>> owed_;
  std::uint64_t label_ = 0;  ///< ERROR entries read
  Status closed_;
  bool self_left_ = false;
  bool all_left_ = false;
};

}  // namespace ronde::agreement
