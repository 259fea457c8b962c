#include "observe/trace_file.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace ronde::observe {

namespace {

/// Events that come together are written together.
constexpr std::chrono::milliseconds kGather(10);
constexpr std::string_view kSeparator = ",\n";

}  // namespace

Result<std::unique_ptr<TraceFile>> TraceFile::create(const std::string& path, std::string_view first, Options options) {
  Result<JsonArrayFile> array = JsonArrayFile::create(path, first, options.mark);
  if (!array) {
    return array.status().with_context("the timeline file '" + path + "' cannot be written");
  }
  std::unique_ptr<TraceFile> file(new TraceFile(std::move(*array), std::move(options)));
  RONDE_ASSIGN_OR_RETURN(file->thread_,
                         start_thread("starting the timeline's thread", [self = file.get()] { self->thread_main(); }));
  return file;
}

TraceFile::TraceFile(JsonArrayFile file, Options options) : options_(std::move(options)), file_(std::move(file)) {
  waiting_.reserve(options_.room);  // address space, no memory yet; so put() need not ask for any
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
          "the timeline file '" + path() +
              "' has gaps: events come faster than they can be written, or there are more "
              "tensors than it has rows for; each event named DROPPED in it says how many are missing there");
    }
  }
  if (options_.before_write) {
    options_.before_write();
  }
  if (Status status = file_.append(events); !status) {
    give_up(events, lost, status);
  }
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
        "the timeline file '" + path() + "' has gaps: " + reason.message() +
            "; events are lost until it can be written again");
  }
  std::lock_guard lock(mutex_);
  total_lost_ += count;
  lost_ += stop_ ? 0 : count + told;
}

}  // namespace ronde::observe
