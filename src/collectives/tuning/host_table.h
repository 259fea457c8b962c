// The table of limits between hosts: which schedule an all-reduce takes whose bytes travel as messages, by how many
// hosts there are and bytes. In the text of the table of one host (table.h):
//
//     # up to so many hosts; bytes, but for turn and large_turn
//     hosts 2: one_turn 32768, gathered 4194304, turn 2, large_turn 1048576, direct 32768, ring 0, chunk 262144
//     hosts 4: one_turn 16384
//     hosts any: one_turn 8192
//
// `large_turn` is built in as 1048576 up to eight hosts and as 2 for more, whatever row these take.
//
// In one turn, or in some that bring together what all hosts have, each receives H-1 times the bytes; in two phases
// less than twice, but 2 (H-1) messages. Both grow with H, so from some hosts on a fixed number of bytes is the border.
//
// A group takes the first row that is large enough for its hosts; what a row does not say is as built in. All ranks of
// a job go by the first one's table: ranks with different rows would wait for each other for ever.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "collectives/schedule/message_limits.h"

namespace ronde::collectives {

class HostTable {
 public:
  /// By the model of docs/plan.md, of TCP at 10 to 100 Gbit/s; that of two hosts was measured.
  static HostTable built_in();
  /// INVALID_ARGUMENT with the row and what is wrong in it.
  static Result<HostTable> parse(std::string_view text);
  /// That of table_text_from_environment(), if there is one, else the built-in one. The error names the variable.
  static Result<HostTable> from_environment();

  /// One row of it, as parse() reads it.
  static std::string row_text(int hosts, const messages::MessageLimits& limits);
  /// The row for so many hosts.
  messages::MessageLimits of(int hosts) const;

 private:
  struct Row {
    int hosts = 0;
    messages::MessageLimits limits;
    bool has_large_turn = false;
  };

  std::vector<Row> rows_;  ///< in ascending order, the last for any number of hosts
};

}  // namespace ronde::collectives
