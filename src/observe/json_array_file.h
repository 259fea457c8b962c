// JsonArrayFile: a file that holds a JSON array, grows, and is a whole JSON document whenever it is opened, also after
// kill -9.
//
// The system may be stopped in the middle of any write that is longer than a page. So there are two copies: the hidden
// one (.NAME.other beside it) is brought up to date and then changes names with the other, in one step. Where a file
// system cannot do that (NFS), or somebody else's file has the hidden one's names, there is one copy, whose closing
// bracket each write replaces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::observe {

/// One thread at a time; path() from any. Calls wait for the disk.
class JsonArrayFile {
 public:
  /// Makes the file, or empties it, and writes `first`, one or several elements separated by commas. SYSTEM_ERROR if
  /// the file cannot be opened or written; the message does not name the path. `mark`: text in the first kilobytes of
  /// every file that the caller makes, and of nobody else's. A hidden copy with the mark that a killed process has left
  /// is taken away; if `mark` is empty, none is.
  static Result<JsonArrayFile> create(const std::string& path, std::string_view first, std::string_view mark = {});
  /// Takes the hidden copy away.
  ~JsonArrayFile();
  JsonArrayFile(JsonArrayFile&&) = default;
  JsonArrayFile& operator=(JsonArrayFile&&) = delete;

  /// Adds elements, with a comma before each one. Who opens the file from now on finds them. On an error the file is as
  /// it was, and nothing of `elements` is in it.
  Status append(std::string_view elements);
  const std::string& path() const { return path_; }

 private:
  explicit JsonArrayFile(const std::string& path) : path_(path) {}

  struct Copy {
    UniqueFd file;
    std::int64_t end = 0;  ///< where the closing bracket stands
  };

  Status open(std::string_view first, std::string_view mark);
  bool make_hidden(std::string_view mark);
  bool exchange() const;
  static Status begin(Copy& copy, std::string_view first);
  static Status extend(Copy& copy, std::string_view elements);

  std::string path_;
  std::string hidden_path_;
  Copy shown_;
  Copy hidden_;         ///< closed where there is one copy
  std::string behind_;  ///< what the hidden copy lacks
};

}  // namespace ronde::observe
