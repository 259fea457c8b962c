// A folder whose files a job's launcher gives to every host, and to which the ranks' new files come back: what a
// function on several hosts is called with, and what it returns, where no file system is shared.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "launch/frame_pipe.h"

namespace ronde::launch {

/// One end. Files lie flat: names with '/' and those that begin with '.' are neither sent nor taken.
class CarriedFolder {
 public:
  explicit CarriedFolder(std::string path) : path_(std::move(path)) {}

  /// Puts every file that has neither come from the other end nor gone to it, whole, into frames of FrameKind::file.
  /// Names that end in ".part" are files that nobody has finished.
  Status send(FramePipe& frames);
  /// Takes such a frame.
  Status take(std::string_view bytes);

 private:
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace ronde::launch
