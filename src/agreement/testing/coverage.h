// Which cells of the protocol's table (state x event) a run of histories has entered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "agreement/sink.h"

namespace ronde::agreement::testing_world {

enum class Row : std::size_t {
  submit_owed,
  submit_unplanned,
  submit_fitting,
  submit_other,
  local_reason,
  join_called,
  all_published,
  reduced,
  all_done,
  peer_frozen_now,
  peer_frozen_later,
  all_frozen,
  epoch_left,
  log_exec,
  log_error,
  log_prepare,
  log_install,
  log_add,
  log_join_done,
  lost,
  quiet_stored,
  all_quiet,
  call_submitted,
  voided,
  log_launch,
  log_break,
  kCount,
};

inline constexpr std::size_t kRows = static_cast<std::size_t>(Row::kCount);

/// Columns as in docs/agreement.md: negotiate; replay; frozen or drain; failing or failed.
/// 'x': must be entered; '-': cannot happen; '.': may happen, with or without an effect.
struct RowText {
  const char* name;
  const char* cells;
};
inline constexpr std::array<RowText, kRows> kTable = {{
    {"submit, an error is owed", "xxx."},
    {"submit, in no bucket", "xxxx"},
    {"submit, planned, fits", "xxxx"},
    {"submit, planned, other descriptor", "xxx."},
    {"local reason", "xxxx"},
    {"join called", "xxx."},
    {"all published", "-xxx"},
    {"slice reduced", "-xxx"},
    {"all done", "-xxx"},
    {"peer frozen in my epoch", ".xxx"},
    {"peer frozen in a later epoch", "x--."},
    {"all frozen", "--x."},
    {"all that was decided is complete", "--x-"},
    {"log: EXEC", "xxxx"},
    {"log: ERROR", "xxxx"},
    {"log: PREPARE", "xxxx"},
    {"log: INSTALL", "x--x"},
    {"log: ADD", "xxxx"},
    {"log: JOIN_DONE", "x-.."},
    {"death seen, or named by a quiet word", "xxxx"},
    {"quiet stored", "---x"},
    {"all survivors quiet", "---x"},
    {"unnamed call submitted", "xxxx"},
    {"all published, other calls", "-xx-"},
    {"log: LAUNCH", "-xxx"},
    {"log: BREAK", "-xxx"},
}};

class Coverage {
 public:
  void count(Row row, Mode mode) { ++cells_[static_cast<std::size_t>(row)][column(mode)]; }
  /// The cells that should have been entered and were not, or the other way round; empty if all is well.
  std::string complaints() const {
    std::string text;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < 4; ++i) {
        const char wanted = kTable[row].cells[i];
        if ((wanted == 'x' && cells_[row][i] == 0) || (wanted == '-' && cells_[row][i] != 0)) {
          text += std::string(kTable[row].name) + " in column " + std::to_string(i) + ": " +
                  std::to_string(cells_[row][i]) + " times\n";
        }
      }
    }
    return text;
  }
  std::string table() const {
    std::string text;
    for (std::size_t row = 0; row < kRows; ++row) {
      text += kTable[row].name;
      for (std::uint64_t cell : cells_[row]) {
        text += "  " + std::to_string(cell);
      }
      text += "\n";
    }
    return text;
  }

 private:
  static std::size_t column(Mode mode) {
    constexpr std::array<std::size_t, 6> kColumns = {0, 1, 2, 2, 3, 3};
    return kColumns[static_cast<std::size_t>(mode)];
  }
  std::array<std::array<std::uint64_t, 4>, kRows> cells_{};
};

}  // namespace ronde::agreement::testing_world
