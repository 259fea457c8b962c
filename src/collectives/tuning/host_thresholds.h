// HostThresholds: the row of thresholds in force among the ranks of one host.
//
// Ranks that differ in their row would run different algorithms against each other and wait for ever. So the row of the
// host's first rank is everyone's: the first rank stores it in its RulesLine before anything runs, and each rank loads
// it from there when it first needs it. Another row later, measured in the meantime (probe.h), takes effect only at an
// agreed position of the log (TABLE in docs/agreement.md).
#pragma once

#include <optional>

#include "transport/rules_line.h"
#include "types/thresholds.h"

namespace ronde::collectives {

/// The row as the host's first rank leaves it in its region, and as the others find it.
void store(const Thresholds& thresholds, transport::RulesLine& line);
/// The row of a Thresholds() if none was stored, which the rule above excludes.
Thresholds load_thresholds(const transport::RulesLine& line);

/// Used by one thread at a time.
class HostThresholds {
 public:
  /// `of_first`: the line of the host's first rank, which must outlive this.
  explicit HostThresholds(const transport::RulesLine& of_first) : of_first_(of_first) {}

  /// The row of the first rank until set() has given another. Requires: the first rank has stored its row, or set() was
  /// called.
  const Thresholds& in_force() {
    if (!row_) {
      row_ = load_thresholds(of_first_);
    }
    return *row_;
  }
  /// Another row from the next operation on; every rank must set it between the same two operations.
  void set(const Thresholds& row) { row_ = row; }

 private:
  const transport::RulesLine& of_first_;
  std::optional<Thresholds> row_;  ///< none: not loaded yet
};

}  // namespace ronde::collectives
