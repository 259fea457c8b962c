// Makes one readable stream of what several ranks print: each line whole, with its rank in front. A pure state machine
// of (text, time); descriptors are elsewhere.
//
// Of the other ranks only finished lines are shown; of a line that overwrites itself by carriage returns (a progress
// bar) its last state. The live rank is shown as it prints: unfinished lines after a short wait, each state of a
// progress bar. Its unfinished line is then the display's last line. When another line must be shown meanwhile, a
// terminal's line is erased, and drawn again below; elsewhere it is ended, and the live rank's next text starts a line
// of its own, with what it belongs to repeated.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace ronde::launch {

/// Text for the launcher's standard output (stream 0) or standard error (1).
struct Piece {
  int stream = 0;
  std::string text;
};

/// One for each place where text appears: standard output and standard error that lead to one terminal share one.
class LineMixer {
 public:
  struct Settings {
    bool terminal = false;
    bool prefix = true;
    bool color = false;
    int live_rank = 0;
  };
  /// A longer line is cut into lines of this size: what has no end is not kept for ever. The command's help tells it.
  static constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;
  /// Text of the live rank that is longer is no prompt and no progress bar: it is shown when its line has ended, so
  /// that no other's line can break it.
  static constexpr std::size_t kMaxPartialBytes = 4096;
  /// How long the live rank's unfinished text waits for the rest: unbuffered Python writes a line's end separately.
  static constexpr Nanoseconds kPartialDelay = 30 * kMillisecond;

  explicit LineMixer(const Settings& settings) : settings_(settings) {}

  void take(int rank, int stream, std::string_view text, Nanoseconds now);
  /// The rank will print no more on this stream: an unfinished line is shown and ended.
  void end(int rank, int stream);
  /// A line of the launcher's own, without a prefix.
  void announce(int stream, std::string_view line);
  /// Shows what has waited long enough.
  void flush(Nanoseconds now);
  /// When flush() has work next; kNever if it has none.
  Nanoseconds next_deadline() const;
  /// What is to be printed, in order.
  std::vector<Piece> take_output() { return std::exchange(output_, {}); }

 private:
  struct Source {
    int rank = 0;
    int stream = 0;
    std::string segment;    ///< text since the last newline or carriage return
    bool carriage = false;  ///< a carriage return came; what follows decides whether it overwrites or ends the line
    // Of the live rank only:
    std::size_t shown = 0;               ///< bytes of the segment that are on the display
    bool broken = false;                 ///< the shown part was ended for another's line
    Nanoseconds waiting_since = kNever;  ///< since when there is text that is not shown
  };

  Source& source(int rank, int stream);
  void take_plain(Source& source, std::string_view text);
  void take_live(Source& source, std::string_view text, Nanoseconds now);
  static bool is_data(const Source& source);
  void show_live(Source& source);
  void finish_live(Source& source);
  void put_lines(const Source& source, const std::string& lines);
  void put(const Source& source, std::string_view text);
  std::string prefix(const Source& source) const;

  Settings settings_;
  std::map<std::pair<int, int>, Source> sources_;  ///< by rank and stream
  Source* open_ = nullptr;                         ///< whose unfinished line is the display's last
  std::vector<Piece> output_;
};

}  // namespace ronde::launch
