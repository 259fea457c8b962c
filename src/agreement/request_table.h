// RequestTable: the names of a rank's requests: where the request of each is, and which errors it is owed.
//
// A name has an index as long as it is in use: while its request is outstanding, an error is owed to it or a bucket
// refers to it. Programs may use names that never come again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "types/bucket.h"

namespace ronde::agreement {

/// Where a request is.
enum class Lane : std::uint8_t {
  none,
  sent,       ///< with the coordinator
  placed,     ///< in its bucket
  held,       ///< waits for the end of a break
  queued,     ///< only as what a submit came to: an unnamed call behind another in its place
  executing,  ///< answered, under way in the negotiated path
  failed,     ///< only as what a submit came to
};

/// What a request that is replayed needs of it comes first, in one cache line: there may be thousands in a step.
struct alignas(64) RequestEntry {
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  Lane lane = Lane::none;           ///< changed by the table alone
  bool owes = false;                ///< `owed` is not empty; in step with it by the three functions below
  std::uint32_t kept = 0;           ///< buckets that refer to it
  std::uint32_t bucket = kNowhere;  ///< in force, kNowhere if in none
  std::uint32_t place = 0;
  Nanoseconds deadline = kNever;
  MemoryPlace memory_place;
  std::string name;
  std::string call;           ///< of a place of unnamed calls: the one that is in it
  std::uint64_t order = 0;    ///< of that call, or of this one, among this rank's
  Descriptor descriptor;      ///< of a request that is sent or held; of a placed one it is the bucket's
  std::string planning_name;  ///< of an unnamed call, or of such a place
  std::deque<Status> owed;    ///< one for each error that other ranks saw and this rank has yet to

  void owe(Status error) {
    owed.push_back(std::move(error));
    owes = true;
  }
  Status pay() {
    Status error = std::move(owed.front());
    owed.pop_front();
    owes = !owed.empty();
    return error;
  }
  void forgive() {
    owed.clear();
    owes = false;
  }
  /// Of the request that is in it.
  const std::string& request_name() const { return call.empty() ? name : call; }
};

class RequestTable {
 public:
  /// The index of this name, from now on if it had none. Entries may move.
  std::uint32_t intern(const std::string& name);
  /// A name that no bucket knows, of which nothing is outstanding or owed, is as good as one that never came.
  void drop_if_idle(std::uint32_t index);
  std::optional<std::uint32_t> find(const std::string& name) const;
  bool contains(const std::string& name) const { return index_of_.contains(name); }
  RequestEntry& operator[](std::uint32_t index) { return entries_[index]; }
  const RequestEntry& operator[](std::uint32_t index) const { return entries_[index]; }
  /// By index; those that no name has are idle.
  std::span<RequestEntry> entries() { return entries_; }
  std::span<const RequestEntry> entries() const { return entries_; }

  void move(RequestEntry& entry, Lane lane);
  /// The same from lane none to lane placed.
  void place(RequestEntry& entry) {
    entry.lane = Lane::placed;
    ++outstanding_;
  }
  /// The same back to none, of the requests that are in these places. False if one was not.
  bool end_placed(std::span<const std::uint32_t> places) {
    bool well = true;
    for (const std::uint32_t index : places) {
      well &= entries_[index].lane == Lane::placed;
      entries_[index].lane = Lane::none;
    }
    outstanding_ -= places.size();
    return well;
  }
  /// Nothing is owed any more.
  void forgive_all();

  /// In use.
  std::size_t names() const { return index_of_.size(); }
  /// Requests that wait for the coordinator.
  bool is_waiting() const { return sent_ > 0; }
  bool has_outstanding() const { return outstanding_ > 0; }
  /// The earliest of the requests in lanes sent and held; kNever if none has one.
  Nanoseconds next_deadline() const;
  /// A request in lane sent that is still there `grace` after its deadline, if there is one.
  std::optional<std::string> overdue(Nanoseconds now, Nanoseconds grace) const;

 private:
  std::unordered_map<std::string, std::uint32_t> index_of_;
  std::vector<RequestEntry> entries_;
  std::vector<std::uint32_t> unused_;  ///< of entries_
  std::size_t sent_ = 0;               ///< in lane sent
  std::size_t outstanding_ = 0;        ///< in any lane but none
};

}  // namespace ronde::agreement
