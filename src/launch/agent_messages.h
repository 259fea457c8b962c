// What the launcher and an agent tell each other in frames (frame_pipe.h), beyond plain numbers.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launch/binding.h"
#include "launch/guardian_channel.h"
#include "store/interfaces.h"
#include "store/leave_note.h"

namespace ronde::launch {

/// The agent's first frame.
struct AgentHello {
  std::string version;  ///< of Ronde; another than the launcher's cannot be talked to further
  std::string host;     ///< as the host calls itself
  std::string caller;   ///< the launcher's address as seen from here, by SSH_CONNECTION; empty: not by ssh
  std::string called;   ///< this host's address as ssh reached it
  std::vector<store::InterfaceAddress> addresses;
  int free_port = 0;  ///< a TCP port that was free a moment ago
  /// What the launcher finds its host's name to stand for, if that is one of `addresses`; does not travel.
  std::string named = {};

  std::string encode() const;
  static Result<AgentHello> decode(std::string_view text);
};

struct PlannedRank {
  int rank = 0, local_rank = 0, cross_rank = 0, cross_size = 1;
};

/// What an agent is to do.
struct AgentPlan {
  std::vector<std::string> command;
  std::string folder;                    ///< to work in
  std::string path_first;                ///< folder that comes first in PATH; empty: none
  std::vector<std::string> environment;  ///< the launcher's, over the agent's own
  std::vector<std::string> settings;     ///< the user's, over everything
  std::string key;
  int size = 1;
  Binding binding = Binding::none;
  std::vector<PlannedRank> ranks;  ///< of this host
  std::string address;             ///< RONDE_ADDRESS
  bool carries = false;            ///< files come behind the plan, and those of ranks are to come back
  std::string master_address;
  int master_port = 0;

  std::string encode() const;
  static Result<AgentPlan> decode(std::string_view text);
};

/// Records of a fixed size.
struct RankReport {
  Report report;  ///< moments are the agent's
  std::int32_t has_note = 0;
  std::int32_t let_down = 0;
  Nanoseconds left = 0;
};
struct OutputHead {
  std::int32_t rank = 0;
  std::int32_t stream = 0;  ///< 0: standard output, 1: standard error
};
struct Echo {
  Nanoseconds launcher = 0;  ///< of the beat
  Nanoseconds agent = 0;
};

template <typename Record>
std::string_view bytes_of(const Record& record) {
  static_assert(std::is_trivially_copyable_v<Record>);
  return {reinterpret_cast<const char*>(&record), sizeof record};
}
/// The record at the beginning of `bytes`; nothing if it is longer than they are.
template <typename Record>
std::optional<Record> record_of(std::string_view bytes) {
  static_assert(std::is_trivially_copyable_v<Record>);
  Record record;
  if (bytes.size() < sizeof record) {
    return std::nullopt;
  }
  std::memcpy(&record, bytes.data(), sizeof record);
  return record;
}

}  // namespace ronde::launch
