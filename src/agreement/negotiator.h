// Negotiator: the member's half of agreement for an engine that does not replay: a Member of which only the learning
// lane is used, with what it wants done handed back as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agreement/member.h"
#include "control/messages.h"
#include "types/group.h"

namespace ronde::agreement {

class Negotiator {
 public:
  /// `own`: index of this rank in the group.
  Negotiator(Group group, int own) : member_(std::move(group), own) {}

  /// A new request of this rank. Ok: `message` is to be sent to the coordinator. An error: the request is over, with
  /// this error, and nothing is sent. Requires: the name is not outstanding.
  Status on_submit(const std::string& name, Descriptor descriptor, Nanoseconds deadline, Nanoseconds timeout,
                   std::optional<control::RequestMessage>& message);

  /// What reading one log entry came to.
  struct Outcome {
    std::vector<control::ExecEntry::Item> agreed;        ///< to be planned together, in this order
    std::vector<std::pair<std::string, Status>> failed;  ///< these requests are over
    std::optional<control::SettingsEntry> settings;
  };
  /// Requires: an entry that only the coordinator sends. INTERNAL if an EXEC names what this rank never submitted, or
  /// the coordinator plans.
  Result<Outcome> on_log(const control::Message& entry);

  /// Every outstanding request is over with this error (death, shutdown); returns their names. Later submits get it
  /// too.
  std::vector<std::string> close(Status reason);

  bool all_left() const { return member_.all_left(); }
  bool self_left() const { return member_.self_left(); }
  /// Ok, or why nothing can be submitted any more.
  const Status& closed() const { return member_.closed(); }
  bool is_waiting() const { return member_.is_waiting(); }
  /// A request that has had no answer `grace` after its deadline, if there is one.
  std::optional<std::string> overdue(Nanoseconds now, Nanoseconds grace) const { return member_.overdue(now, grace); }

 private:
  Member member_;
};

}  // namespace ronde::agreement
