// EventBuffer: text of events on its way from many threads to one, in memory of limited size. Who adds an event never
// waits: an event for which there is no room is lost, and counted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace ronde::observe {

/// Any thread may call, but only one at a time may take().
class EventBuffer {
 public:
  /// Stands before each event in what take() gives.
  static constexpr std::string_view kSeparator = ",\n";

  /// `room`: bytes of events and separators that may wait.
  explicit EventBuffer(std::size_t room);

  /// False, and `lost` is counted, if there is no room for the event and for `reserve` bytes more, which put_reserved()
  /// is sure to find.
  bool put(std::string_view event, std::size_t reserve = 0, std::uint64_t lost = 1);
  /// Adds an event for which a put() reserved `reserved` bytes. Requires: the event and a separator take no more.
  void put_reserved(std::string_view event, std::size_t reserved);
  /// Counts events for which there was no sense in trying.
  void count_lost(std::uint64_t events = 1);
  /// Counts `events` that take() gave, and that could not be kept. Unless the buffer is closed, the next take() tells
  /// of these, and once more of `told` others, of which the last take() had told: that has not been kept either.
  void count_lost_after_take(std::uint64_t events, std::uint64_t told);
  /// Of all events so far.
  std::uint64_t lost() const;

  /// Waits until there are events, then for more of them: for `gather`, or until half of the room is full; a closed
  /// buffer waits for nothing. True: `events`, whose memory is used again, has all events that waited, and `lost` has
  /// how many were lost since the last take(). False: the buffer is closed and there is neither.
  bool take(std::string& events, std::uint64_t& lost, std::chrono::milliseconds gather);
  /// Nothing more will be put: take() gives what is left, and then returns false.
  void close();

 private:
  void append(std::string_view event);
  bool is_half_full() const { return waiting_.size() >= room_ / 2; }

  const std::size_t room_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_:
  std::string waiting_;
  std::size_t reserved_ = 0;
  std::uint64_t lost_ = 0;  ///< since the last take()
  std::uint64_t total_lost_ = 0;
  bool is_closed_ = false;
};

}  // namespace ronde::observe
