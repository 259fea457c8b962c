#include "observe/trace_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/thread.h"

namespace ronde::observe {

namespace {

/// Events that come together are written together.
constexpr std::chrono::milliseconds kGather(10);
constexpr std::string_view kSeparator = ",\n";
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

Result<std::unique_ptr<TraceFile>> TraceFile::create(const std::string& path, std::string_view first, Options options) {
  std::unique_ptr<TraceFile> file(new TraceFile(path, std::move(options)));
  if (Status status = file->open(first); !status) {
    return status.with_context("the timeline file '" + path + "' cannot be written");
  }
  RONDE_ASSIGN_OR_RETURN(file->thread_,
                         start_thread("starting the timeline's thread", [self = file.get()] { self->thread_main(); }));
  return file;
}

TraceFile::TraceFile(std::string path, Options options) : path_(std::move(path)), options_(std::move(options)) {}

Status TraceFile::open(std::string_view first) {
  shown_.file.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!shown_.file.is_open()) {
    return Status::from_errno("open", errno);
  }
  RONDE_RETURN_IF_ERROR(begin(shown_, first));
  struct stat what {};
  const bool may_be_renamed = ::lstat(path_.c_str(), &what) == 0 && S_ISREG(what.st_mode);  // no link, no /dev/stdout
  if (may_be_renamed && make_hidden()) {
    if (begin(hidden_, first) && exchange()) {
      std::swap(shown_, hidden_);
    } else {  // not written whole, or the file system cannot exchange
      ::unlink(hidden_path_.c_str());
      hidden_ = {};
    }
  }
  waiting_.reserve(options_.room);  // address space, no memory yet; so put() need not ask for any
  return {};
}

/// A new file: what has the name already may be anybody's, or lead anywhere.
bool TraceFile::make_hidden() {
  for (const std::string& path : hidden_beside(path_)) {
    if (is_left_behind(path)) {
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

/// Whether it is the hidden copy of a process of this user's that was killed.
bool TraceFile::is_left_behind(const std::string& path) const {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat what {};
  if (options_.mark.empty() || !file.is_open() || ::fstat(file.get(), &what) != 0 || !S_ISREG(what.st_mode) ||
      what.st_uid != ::geteuid() || what.st_nlink != 1) {
    return false;
  }
  std::string begin(4096, '\0');
  const ssize_t count = ::pread(file.get(), begin.data(), begin.size(), 0);
  begin.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return begin.starts_with(kBegin) && begin.find(options_.mark) != std::string::npos;
}

Status TraceFile::begin(Copy& copy, std::string_view first) const {
  std::string text(kBegin);
  text += first;
  text += kEnd;
  RONDE_RETURN_IF_ERROR(write_at(copy.file.get(), text, 0));
  copy.end = static_cast<std::int64_t>(text.size() - kEnd.size());
  return {};
}

/// The two copies change names; false if the file system cannot do that.
bool TraceFile::exchange() const {
  return ::renameat2(AT_FDCWD, hidden_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0;
}

TraceFile::~TraceFile() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
  if (hidden_.file.is_open() && is_at(hidden_path_, hidden_.file.get())) {
    ::unlink(hidden_path_.c_str());
  }
}

// ---- Adding

bool TraceFile::put(std::string_view event, std::size_t reserve, std::uint64_t lost) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() + kSeparator.size() + event.size() + reserved_ + reserve > options_.room) {
    lost_ += lost;
    total_lost_ += lost;
    return false;
  }
  reserved_ += reserve;
  append(event);
  return true;
}

void TraceFile::put_reserved(std::string_view event, std::size_t reserved) {
  std::lock_guard lock(mutex_);
  reserved_ -= reserved;
  append(event);
}

/// Wakes the thread only when it sleeps for want of events, or had better not wait for more of them.
void TraceFile::append(std::string_view event) {
  const std::size_t before = waiting_.size();
  waiting_ += kSeparator;
  waiting_ += event;
  const std::size_t half = options_.room / 2;
  if (before == 0 || (before < half && waiting_.size() >= half)) {
    wake_.notify_one();
  }
}

void TraceFile::count_lost(std::uint64_t events) {
  std::lock_guard lock(mutex_);
  lost_ += events;
  total_lost_ += events;
}

std::uint64_t TraceFile::lost() const {
  std::lock_guard lock(mutex_);
  return total_lost_;
}

// ---- Writing

void TraceFile::thread_main() {
  pthread_setname_np(pthread_self(), "ronde-timeline");
  std::string events;
  std::unique_lock lock(mutex_);
  try {
    events.reserve(waiting_.capacity());
  } catch (const std::bad_alloc&) {
    // Then put() may find less room, and counts what it cannot keep.
  }
  while (!stop_ || !waiting_.empty() || lost_ != 0) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    wake_.wait_for(lock, kGather, [this] { return stop_ || waiting_.size() >= options_.room / 2; });
    events.clear();
    events.swap(waiting_);
    const std::uint64_t lost = std::exchange(lost_, 0);
    lock.unlock();
    try {
      write_out(events, lost);
    } catch (const std::bad_alloc&) {
      count_lost(std::max<std::uint64_t>(lost, 1));  // how many of them stand in the file is not known any more
    }
    lock.lock();
  }
}

/// `events` begin with a separator each.
void TraceFile::write_out(std::string& events, std::uint64_t lost) {
  if (lost != 0) {
    events += kSeparator;
    events += options_.lost_event(lost);
    if (!std::exchange(told_, true)) {
      log(LogLevel::warning, options_.rank,
          "the timeline file '" + path_ +
              "' has gaps: events come faster than they can be written, or there are more "
              "tensors than it has rows for; each event named DROPPED in it says how many are missing there");
    }
  }
  if (options_.before_write) {
    options_.before_write();
  }
  if (Status status = show(events); !status) {
    give_up(events, lost, status);
  }
}

/// On an error the file is as it was.
Status TraceFile::show(std::string_view events) {
  if (!hidden_.file.is_open()) {
    return extend(shown_, events);
  }
  // A copy is written to only now, not right after it was hidden: whoever had opened it has had time to read it.
  RONDE_RETURN_IF_ERROR(extend(hidden_, behind_));
  behind_.clear();
  const std::int64_t end = hidden_.end;
  RONDE_RETURN_IF_ERROR(extend(hidden_, events));
  if (!exchange()) {
    const Status status = Status::from_errno("rename", errno);
    hidden_.end = end;  // to be written over
    return status;
  }
  std::swap(shown_, hidden_);
  behind_ = events;
  return {};
}

/// The events take the place of the closing bracket and bring their own. On an error the copy is as it was.
Status TraceFile::extend(Copy& copy, std::string_view events) const {
  if (events.empty()) {
    return {};
  }
  std::string text(events);
  text += kEnd;
  Status status = write_at(copy.file.get(), text, copy.end);
  if (status) {
    copy.end += static_cast<std::int64_t>(events.size());
    return status;
  }
  static_cast<void>(write_at(copy.file.get(), kEnd, copy.end));
  [[maybe_unused]] const int cut = ::ftruncate(copy.file.get(), copy.end + static_cast<std::int64_t>(kEnd.size()));
  return status;
}

/// These are lost, and the event at their end that told of `told` more. The file says so when it can be written again.
void TraceFile::give_up(std::string_view events, std::uint64_t told, const Status& reason) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; at != std::string_view::npos; at = events.find(kSeparator, at + 1)) {
    ++count;
  }
  count -= told != 0 ? 1 : 0;
  if (!std::exchange(told_, true)) {
    log(LogLevel::warning, options_.rank,
        "the timeline file '" + path_ + "' has gaps: " + reason.message() +
            "; events are lost until it can be written again");
  }
  std::lock_guard lock(mutex_);
  total_lost_ += count;
  lost_ += stop_ ? 0 : count + told;
}

}  // namespace ronde::observe
