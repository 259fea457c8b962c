// What the ranks print: from their pipes to the launcher's standard streams, as lines, and to files.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launch/line_mixer.h"
#include "launch/output_writer.h"
#include "launch/rank_process.h"

namespace ronde::launch {

struct RankOutputSettings {
  bool prefix = true;
  std::string folder;  ///< <folder>/rank.N/stdout and stderr get what the rank prints, byte for byte; empty: none
};

/// One thread. Never blocks on the launcher's standard streams; what their readers do not take yet is kept, and beyond
/// a bound the ranks' pipes are left full.
class RankOutput {
 public:
  /// Makes pipes (into `starts`) and files. A job of one rank without files keeps the launcher's own descriptors: its
  /// program sees the terminal, and nothing is to be done here. SYSTEM_ERROR names the file that cannot be made.
  static Result<std::unique_ptr<RankOutput>> open(std::vector<RankStart>& starts, const RankOutputSettings& settings);

  /// For ranks of other hosts, whose output feed() and finish() bring.
  static Result<std::unique_ptr<RankOutput>> open_fed(int ranks, const RankOutputSettings& settings);

  /// The ends that the guardian must not keep open.
  std::vector<int> readers() const;

  /// Adds what has to be polled. Requires: take() gets the same entries after the poll.
  void watch(std::vector<pollfd>& entries);
  /// Reads, mixes, writes.
  void take(const std::vector<pollfd>& entries, Nanoseconds now);
  Nanoseconds next_deadline() const;

  /// What a rank has printed on `stream` (0: standard output, 1: standard error) of a job opened by open_fed().
  void feed(int rank, int stream, std::string_view text, Nanoseconds now);
  /// The rank has closed it.
  void finish(int rank, int stream);
  /// Otherwise feeding should wait.
  bool has_room() const;

  /// A line of the launcher's own on standard error.
  void announce(const std::string& line);
  /// Every rank has closed its streams.
  bool is_ended() const;
  /// Treats what is still open as closed: what the ranks have printed is read, an unfinished line ended.
  void end_all(Nanoseconds now);
  /// Nothing waits to be written.
  bool is_written() const;
  /// Someone closed the reading end of the launcher's standard output or error.
  bool has_lost_reader() const { return lost_reader_; }

 private:
  struct Source {
    int rank = 0;
    int stream = 0;
    bool is_open = true;
    UniqueFd reader;  ///< not open: fed
    UniqueFd file;    ///< not open: no file
    std::size_t place = 0;
  };
  /// Where text appears. Standard output and error lead to one place if they are one terminal, file or pipe.
  struct Place {
    LineMixer mixer;
    OutputWriter writer;
  };

  explicit RankOutput(bool raw) : raw_(raw) {}
  void make_places(const RankOutputSettings& settings);
  Status make_source(RankStart& start, int stream, const RankOutputSettings& settings);
  Status add_source(Source source, const RankOutputSettings& settings);
  void read(Source& source, Nanoseconds now);
  void take_text(Source& source, std::string_view text, Nanoseconds now);
  void close(Source& source);
  Source* source_of(int rank, int stream);
  void push();

  bool raw_;  ///< one rank: bytes pass as they are
  std::vector<Source> sources_;
  std::vector<Place> places_;
  std::size_t place_of_[2] = {0, 0};
  bool lost_reader_ = false;
};

}  // namespace ronde::launch
