#include "observe/json_array_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace ronde::observe {

namespace {

constexpr std::string_view kBegin = "[\n";
constexpr std::string_view kEnd = "\n]\n";

/// Names for the hidden copy, tried in this order: somebody's file may have one.
std::vector<std::string> hidden_beside(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;  // 0 if there is no folder in it
  const std::string first = path.substr(0, name) + "." + path.substr(name) + ".other";
  return {first, first + "2", first + "3"};
}

/// Whether the path leads to this very file, not through a link.
bool is_at(const std::string& path, int file) {
  struct stat there {};
  struct stat ours {};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(file, &ours) == 0 && there.st_dev == ours.st_dev &&
         there.st_ino == ours.st_ino;
}

/// Whether it is the hidden copy of a process of this user's that was killed.
bool is_left_behind(const std::string& path, std::string_view mark) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat what {};
  if (mark.empty() || !file.is_open() || ::fstat(file.get(), &what) != 0 || !S_ISREG(what.st_mode) ||
      what.st_uid != ::geteuid() || what.st_nlink != 1) {
    return false;
  }
  std::string begin(4096, '\0');
  const ssize_t count = ::pread(file.get(), begin.data(), begin.size(), 0);
  begin.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return begin.starts_with(kBegin) && begin.find(mark) != std::string::npos;
}

Status write_at(int file, std::string_view text, std::int64_t at) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(file, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return Status::from_errno("pwrite", errno);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
  return {};
}

}  // namespace

Result<JsonArrayFile> JsonArrayFile::create(const std::string& path, std::string_view first, std::string_view mark) {
  JsonArrayFile file(path);
  RONDE_RETURN_IF_ERROR(file.open(first, mark));
  return file;
}

JsonArrayFile::~JsonArrayFile() {
  if (hidden_.file.is_open() && is_at(hidden_path_, hidden_.file.get())) {
    ::unlink(hidden_path_.c_str());
  }
}

Status JsonArrayFile::open(std::string_view first, std::string_view mark) {
  shown_.file.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!shown_.file.is_open()) {
    return Status::from_errno("open", errno);
  }
  RONDE_RETURN_IF_ERROR(begin(shown_, first));
  struct stat what {};
  const bool may_be_renamed = ::lstat(path_.c_str(), &what) == 0 && S_ISREG(what.st_mode);  // no link, no /dev/stdout
  if (may_be_renamed && make_hidden(mark)) {
    if (begin(hidden_, first) && exchange()) {
      std::swap(shown_, hidden_);
    } else {  // not written whole, or the file system cannot exchange
      ::unlink(hidden_path_.c_str());
      hidden_ = {};
    }
  }
  return {};
}

/// A new file: what has the name already may be anybody's, or lead anywhere.
bool JsonArrayFile::make_hidden(std::string_view mark) {
  for (const std::string& path : hidden_beside(path_)) {
    if (is_left_behind(path, mark)) {
      ::unlink(path.c_str());
    }
    hidden_.file.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (hidden_.file.is_open()) {
      hidden_path_ = path;
      return true;
    }
  }
  return false;
}

/// The two copies change names; false if the file system cannot do that.
bool JsonArrayFile::exchange() const {
  return ::renameat2(AT_FDCWD, hidden_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0;
}

Status JsonArrayFile::begin(Copy& copy, std::string_view first) {
  std::string text(kBegin);
  text += first;
  text += kEnd;
  RONDE_RETURN_IF_ERROR(write_at(copy.file.get(), text, 0));
  copy.end = static_cast<std::int64_t>(text.size() - kEnd.size());
  return {};
}

Status JsonArrayFile::append(std::string_view elements) {
  if (!hidden_.file.is_open()) {
    return extend(shown_, elements);
  }
  // A copy is written to only now, not right after it was hidden: whoever had opened it has had time to read it.
  RONDE_RETURN_IF_ERROR(extend(hidden_, behind_));
  behind_.clear();
  const std::int64_t end = hidden_.end;
  RONDE_RETURN_IF_ERROR(extend(hidden_, elements));
  if (!exchange()) {
    const Status status = Status::from_errno("rename", errno);
    hidden_.end = end;  // to be written over
    return status;
  }
  std::swap(shown_, hidden_);
  behind_ = elements;
  return {};
}

/// The elements take the place of the closing bracket and bring their own. On an error the copy is as it was.
Status JsonArrayFile::extend(Copy& copy, std::string_view elements) {
  if (elements.empty()) {
    return {};
  }
  std::string text(elements);
  text += kEnd;
  Status status = write_at(copy.file.get(), text, copy.end);
  if (status) {
    copy.end += static_cast<std::int64_t>(elements.size());
    return status;
  }
  static_cast<void>(write_at(copy.file.get(), kEnd, copy.end));
  [[maybe_unused]] const int cut = ::ftruncate(copy.file.get(), copy.end + static_cast<std::int64_t>(kEnd.size()));
  return status;
}

}  // namespace ronde::observe
