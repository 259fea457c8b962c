// A folder that only this user can enter, for sockets; it goes when its owner goes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::store {

class PrivateFolder {
 public:
  /// A fresh folder of mode 0700 in the first of $XDG_RUNTIME_DIR, $TMPDIR and /tmp that is an absolute path, takes
  /// one, and leaves room for a socket's name. SYSTEM_ERROR if none does. First removes those that killed processes of
  /// this user have left there (folder_owner.h).
  static Result<PrivateFolder> create();

  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&& other) noexcept;
  /// Removes the folder, but in a forked child of its creator does nothing.
  ~PrivateFolder();

  const std::string& path() const { return path_; }

 private:
  PrivateFolder(std::string path, pid_t owner);

  std::string path_;
  pid_t owner_;
  UniqueFd claim_;
};

/// The parents to try, in order.
std::vector<std::string> folder_candidates(const char* xdg_runtime_dir, const char* tmpdir);

}  // namespace ronde::store
