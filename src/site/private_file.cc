#include "site/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ronde::site {

Result<std::string> read_private_file(const UniqueFd& folder, const std::string& name) {
  // Through a descriptor, so that what was looked at is what is read; O_NONBLOCK: it might be a pipe.
  const UniqueFd file(::openat(folder.is_open() ? folder.get() : AT_FDCWD, name.c_str(),
                               O_RDONLY | O_CLOEXEC | O_NONBLOCK | (folder.is_open() ? O_NOFOLLOW : 0)));
  struct stat about {};
  if (!file.is_open() || ::fstat(file.get(), &about) != 0) {
    return Status::from_errno("opening " + name, errno);
  }
  if (about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return Status::error(Code::auth_failed, name +
                                                " belongs to another user or is open to others; a key's file must be " +
                                                "this user's own and of mode 0600 (chmod 600)");
  }
  constexpr off_t kMostBytes = 4096;
  if (!S_ISREG(about.st_mode) || about.st_size > kMostBytes) {
    return Status::error(Code::auth_failed, name + " is no regular file of at most 4096 bytes");
  }
  std::string text(static_cast<std::size_t>(kMostBytes), '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) {
    return Status::from_errno("reading " + name, errno);
  }
  text.resize(static_cast<std::size_t>(got));
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string::npos ? std::string() : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace ronde::site
