// TraceFile: a JsonArrayFile of events that any thread may add to.
//
// Who adds an event never waits for the disk: events go into an EventBuffer, and a thread of the file's own, which
// sleeps while there is nothing to do, writes them out a few milliseconds later. What finds no room is counted, and the
// count stands in the file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/status.h"
#include "observe/event_buffer.h"
#include "observe/json_array_file.h"

namespace ronde::observe {

class TraceFile {
 public:
  struct Options {
    std::size_t room = 8 << 20;  ///< bytes of events that may wait to be written
    int rank = 0;                ///< for the log
    /// The event that says that so many were lost; called by the file's thread.
    std::function<std::string(std::uint64_t)> lost_event;
    std::string mark = {};  ///< of JsonArrayFile::create()
    /// For tests: called by the file's thread before each write.
    std::function<void()> before_write;
  };

  /// Makes the file, or empties it, and writes `first`, one or several events. SYSTEM_ERROR naming the path if it
  /// cannot.
  static Result<std::unique_ptr<TraceFile>> create(const std::string& path, std::string_view first, Options options);
  /// Writes what waits, then ends the thread.
  ~TraceFile();

  /// As EventBuffer has them; any thread. An event is one or several JSON objects, separated by commas.
  bool put(std::string_view event, std::size_t reserve = 0, std::uint64_t lost = 1) {
    return buffer_.put(event, reserve, lost);
  }
  void put_reserved(std::string_view event, std::size_t reserved) { buffer_.put_reserved(event, reserved); }
  void count_lost(std::uint64_t events = 1) { buffer_.count_lost(events); }
  std::uint64_t lost() const { return buffer_.lost(); }
  const std::string& path() const { return file_.path(); }

 private:
  TraceFile(JsonArrayFile file, Options options);

  void thread_main();
  void write_out(std::string& events, std::uint64_t lost);
  void give_up(std::string_view events, std::uint64_t told, const Status& reason);

  const Options options_;
  EventBuffer buffer_;
  // The file's thread only:
  JsonArrayFile file_;  ///< any thread may read its path
  bool told_ = false;   ///< the log has heard of a loss
  std::thread thread_;
};

}  // namespace ronde::observe
