// Whether a private folder still has an owner. The file `owner` in it is locked by the process that made the folder,
// and the kernel unlocks it however that one ends. So what a process killed with SIGKILL leaves is found, and removed,
// when the same user next makes such a folder.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace ronde::store {

/// Locks a fresh folder for as long as the descriptor, or a forked child's, is open. Not open where the file system has
/// no locks: then nobody will take the folder for abandoned.
UniqueFd claim_folder(const std::string& folder);

/// Removes the folders `ronde-*` in `parent` that are this user's own, of mode 0700, claimed on this boot of this host,
/// and whose owner has gone.
void remove_abandoned_folders(const std::string& parent);

/// Removes such a folder with the files in it, whoever's it is; folders inside it, and thus it, stay. What is not there
/// any more is no failure.
void remove_private_folder(const std::string& path);

}  // namespace ronde::store
