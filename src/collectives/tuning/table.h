// The table of thresholds: which regime an all-reduce takes, by world size and bytes. In text form, so that it can be
// printed, kept in a file, edited and given back (RONDE_TABLE).
//
//     # up to so many ranks, bytes
//     ranks 2: inline 56, one_shot 1099511627776, staged 262144, chunk 262144, stream 8388608
//     ranks any: inline 56, one_shot 2048, staged 65536, chunk 65536, stream 8388608
//
// A world takes the first row that is large enough for it; what a row does not say is as in the built-in table. The
// text may have rows for hosts, too, which are host_table.h's. Its syntax: table_text.h.
//
// The row in force is the same on all ranks of a group: host_thresholds.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "collectives/tuning/table_text.h"
#include "types/thresholds.h"

namespace ronde::collectives {

/// One row.
using ronde::Thresholds;

/// The row for worlds that are larger than any other row's.
inline constexpr int kAnyRanks = kAny;

class Table {
 public:
  /// Measured where docs/algorithms.md says.
  static Table built_in();
  /// INVALID_ARGUMENT with the row and what is wrong in it.
  static Result<Table> parse(std::string_view text);
  /// That of table_text_from_environment(), if there is one. The error names the variable.
  static Result<std::optional<Table>> from_environment();

  /// What parse() reads.
  std::string text() const;
  /// One row of it.
  static std::string row_text(int ranks, const Thresholds& thresholds);
  /// The row for a world of so many ranks.
  const Thresholds& of(int ranks) const;
  bool operator==(const Table&) const = default;

 private:
  struct Row {
    int ranks = 0;
    Thresholds thresholds;
    bool operator==(const Row&) const = default;
  };

  std::vector<Row> rows_;
};

}  // namespace ronde::collectives
