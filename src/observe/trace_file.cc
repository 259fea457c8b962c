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

TraceFile::TraceFile(JsonArrayFile file, Options options)
    : options_(std::move(options)), buffer_(options_.room), file_(std::move(file)) {}

TraceFile::~TraceFile() {
  buffer_.close();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void TraceFile::thread_main() {
  pthread_setname_np(pthread_self(), "ronde-timeline");
  std::string events;
  try {
    events.reserve(options_.room);
  } catch (const std::bad_alloc&) {
    // Then put() may find less room, and counts what it cannot keep.
  }
  std::uint64_t lost = 0;
  while (buffer_.take(events, lost, kGather)) {
    try {
      write_out(events, lost);
    } catch (const std::bad_alloc&) {
      count_lost(std::max<std::uint64_t>(lost, 1));  // how many of them stand in the file is not known any more
    }
  }
}

/// `events` begin with a separator each.
void TraceFile::write_out(std::string& events, std::uint64_t lost) {
  if (lost != 0) {
    events += EventBuffer::kSeparator;
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
  for (std::size_t at = 0; at != std::string_view::npos; at = events.find(EventBuffer::kSeparator, at + 1)) {
    ++count;
  }
  count -= told != 0 ? 1 : 0;
  if (!std::exchange(told_, true)) {
    log(LogLevel::warning, options_.rank,
        "the timeline file '" + path() + "' has gaps: " + reason.message() +
            "; events are lost until it can be written again");
  }
  buffer_.count_lost_after_take(count, told);
}

}  // namespace ronde::observe
