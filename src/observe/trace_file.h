// TraceFile: a JsonArrayFile of events that any thread may add to.
//
// Who adds an event never waits for the disk: events go into memory of limited size, and a thread of the file's own,
// which sleeps while there is nothing to do, writes them out a few milliseconds later. What finds no room is counted,
// and the count stands in the file.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/status.h"
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

  /// Any thread. Adds an event (one or several JSON objects, separated by commas). False, and `lost` is counted, if
  /// there is no room for it and for `reserve` bytes more, which put_reserved() is sure to find.
  bool put(std::string_view event, std::size_t reserve = 0, std::uint64_t lost = 1);
  /// Adds an event for which a put() reserved `reserved` bytes; it takes no more than that.
  void put_reserved(std::string_view event, std::size_t reserved);
  /// Of events for which there was no sense in trying.
  void count_lost(std::uint64_t events = 1);
  std::uint64_t lost() const;
  const std::string& path() const { return file_.path(); }

 private:
  TraceFile(JsonArrayFile file, Options options);

  void append(std::string_view event);
  void thread_main();
  void write_out(std::string& events, std::uint64_t lost);
  void give_up(std::string_view events, std::uint64_t told, const Status& reason);

  const Options options_;
  // The file's thread only:
  JsonArrayFile file_;            ///< the path may be read by any thread
  bool told_ = false;             ///< the log has heard of a loss
  std::uint64_t total_lost_ = 0;  ///< guarded by mutex_

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::string waiting_;       ///< guarded by mutex_
  std::size_t reserved_ = 0;  ///< guarded by mutex_
  std::uint64_t lost_ = 0;    ///< guarded by mutex_: since the last write
  bool stop_ = false;         ///< guarded by mutex_
  std::thread thread_;
};

}  // namespace ronde::observe
