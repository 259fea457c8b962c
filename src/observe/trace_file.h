// TraceFile: a JSON array in a file that grows, and is a whole JSON document whenever it is opened, also after kill -9.
// Who adds an event never waits for the disk: events go into memory of limited size, and a thread of the file's own,
// which sleeps while there is nothing to do, writes them out a few milliseconds later. What finds no room is counted,
// and the count stands in the file.
//
// The system may be stopped in the middle of any write that is longer than a page. So there are two copies: the hidden
// one (.NAME.other beside it) is brought up to date and then changes names with the other, in one step. Where a file
// system cannot do that (NFS), or somebody else's file has the hidden one's names, there is one copy, whose closing
// bracket each write replaces.
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
#include "base/unique_fd.h"

namespace ronde::observe {

class TraceFile {
 public:
  struct Options {
    std::size_t room = 8 << 20;  ///< bytes of events that may wait to be written
    int rank = 0;                ///< for the log
    /// The event that says that so many were lost; called by the file's thread.
    std::function<std::string(std::uint64_t)> lost_event;
    /// In the first kilobytes of every file that the caller makes, and of nobody else's: a hidden copy with it that a
    /// killed process has left is taken away. Empty: none is.
    std::string mark = {};
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
  const std::string& path() const { return path_; }

 private:
  TraceFile(std::string path, Options options);

  struct Copy {
    UniqueFd file;
    std::int64_t end = 0;  ///< where the closing bracket stands
  };

  Status open(std::string_view first);
  bool make_hidden();
  Status begin(Copy& copy, std::string_view first) const;
  bool is_left_behind(const std::string& path) const;
  bool exchange() const;
  void append(std::string_view event);
  void thread_main();
  void write_out(std::string& events, std::uint64_t lost);
  Status show(std::string_view events);
  Status extend(Copy& copy, std::string_view events) const;
  void give_up(std::string_view events, std::uint64_t told, const Status& reason);

  const std::string path_;
  const Options options_;
  std::string hidden_path_;
  // The file's thread only:
  Copy shown_;
  Copy hidden_;                   ///< closed where there is one copy
  std::string behind_;            ///< what the hidden one lacks
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
