// TableCache: where a table that was measured stays until the machine boots again, so that only one job has to measure.
// A text file of this user's:
//
//     # ronde 0.1.0, boot 7c2d..., processor Xeon..., hand-over 96 ns
//     ranks 2: inline 56, ...
//
// What another user, version, boot or processor has left there counts as nothing, and so does what cannot be read. That
// nothing can be written is no error: the next job measures again.
#pragma once

#include <optional>
#include <string>

#include "collectives/tuning/table.h"

namespace ronde::collectives {

struct ProbedTable {
  Table table;
  double hand_over = 0;  ///< nanoseconds; kept in whole ones
};

class TableCache {
 public:
  /// $XDG_RUNTIME_DIR/ronde-table-<uid>, else that name in $XDG_CACHE_HOME/ronde or ~/.cache/ronde. None if the machine
  /// does not tell its boot apart from others, or the environment names no such folder.
  static std::optional<TableCache> of_this_user();
  /// `identity`: what the first line begins with.
  TableCache(std::string path, std::string identity) : path_(std::move(path)), identity_(std::move(identity)) {}

  std::optional<ProbedTable> load() const;
  /// At once or not at all, with the folder if need be; false if it could not be.
  bool store(const ProbedTable& probed) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string identity_;
};

/// The pure part of of_this_user(): the file's path, empty if there is none. Only absolute folders count.
std::string table_cache_path(const char* runtime_dir, const char* cache_home, const char* home, unsigned user);

}  // namespace ronde::collectives
