#include "store/folder_owner.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/boot_id.h"

namespace ronde::store {

namespace {

// horovod.run writes the same (compat/horovod/horovod/runner/_functions.py).
constexpr const char* kOwner = "owner";
constexpr const char* kNewOwner = "owner.new";
constexpr std::string_view kPrefix = "ronde-";

/// Hosts may share the file system without sharing its locks: only what was claimed here can be known to be abandoned.
bool is_of_this_boot(int file) {
  const std::string boot = boot_id();
  std::array<char, 128> text{};
  const ssize_t got = ::read(file, text.data(), text.size());
  return !boot.empty() && got > 0 && std::string_view(text.data(), static_cast<std::size_t>(got)) == boot;
}

/// Holds the lock in the owner's place, so that of two who look only one removes. Not open unless abandoned.
UniqueFd lock_if_abandoned(const std::string& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!folder.is_open() || ::fstat(folder.get(), &about) != 0 || about.st_uid != ::geteuid() ||
      (about.st_mode & 0777) != 0700) {  // a parent may hand down its setgid bit
    return {};
  }
  UniqueFd owner(::openat(folder.get(), kOwner, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!owner.is_open() || !is_of_this_boot(owner.get()) || ::flock(owner.get(), LOCK_EX | LOCK_NB) != 0) {
    return {};
  }
  return owner;
}

}  // namespace

UniqueFd claim_folder(const std::string& folder) {
  const std::string boot = boot_id();
  const std::string unlocked = folder + "/" + kNewOwner;
  UniqueFd file(::open(unlocked.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Under the name that is looked for only once it is locked.
  if (file.is_open() && !boot.empty() && ::write(file.get(), boot.data(), boot.size()) == std::ssize(boot) &&
      ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::rename(unlocked.c_str(), (folder + "/" + kOwner).c_str()) == 0) {
    return file;
  }
  ::unlink(unlocked.c_str());
  return {};
}

void remove_abandoned_folders(const std::string& parent) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(parent.c_str()), ::closedir);
  if (entries == nullptr) {
    return;
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    if (std::string_view(entry->d_name).starts_with(kPrefix)) {
      const std::string path = parent + "/" + entry->d_name;
      if (const UniqueFd lock = lock_if_abandoned(path); lock.is_open()) {
        remove_private_folder(path);
      }
    }
  }
}

void remove_private_folder(const std::string& path) {
  // O_NOFOLLOW and names relative to the descriptor: nobody can lead the removal elsewhere.
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* folder = fd < 0 ? nullptr : ::fdopendir(fd);
  if (folder == nullptr) {
    if (fd >= 0) {
      ::close(fd);
    }
    return;
  }
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      ::unlinkat(fd, entry->d_name, 0);
    }
  }
  ::closedir(folder);
  ::rmdir(path.c_str());
}

}  // namespace ronde::store
