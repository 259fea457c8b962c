// CallPlaces: the places in buckets that the unnamed calls of a planning name take in turn. Those that find a place
// taken wait in a queue behind it (call_queues.h).
//
// Ranks pair their unnamed calls by number: the n-th call of one rank is the n-th of every other, whatever a rank has
// waited for. The number is the call's name, which never comes again; by it the coordinator pairs what is sent to it.
// What comes back is the planning name, which a rank makes of the order of its calls alone. It is a hint at places in
// buckets and nothing rests on it: calls that find their planning name in force take its places in turn, or wait behind
// the call that has the place. Ranks whose hints differ publish different calls; the flag line says which,
// so every rank sees it before it reads any data. Then the instance is void on all of them, the epoch breaks, and the
// calls go to the coordinator by their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ronde::agreement {

class CallPlaces {
 public:
  /// Of one planning name.
  struct Turns {
    std::vector<std::uint32_t> places;  ///< indices in the request table
    std::uint64_t next = 0;
    std::uint64_t recent = 0;  ///< of the last calls: how many are counted
    std::uint64_t queued = 0;  ///< of these, those that had to wait for a place
  };

  /// The number of the call that is made now, among this rank's.
  std::uint64_t next_order() { return ++calls_; }

  /// The place is in force, for this turn of the planning name.
  void begin(const std::string& planning_name, std::uint32_t turn, std::uint32_t place);
  bool contains(const std::string& planning_name) const { return turns_.contains(planning_name); }
  /// Null if it has no places in force. Valid until end().
  Turns* find(const std::string& planning_name);
  /// Whose turn it is.
  static std::uint32_t next_place(const Turns& turns) { return turns.places[turns.next % turns.places.size()]; }
  /// A call takes next_place(), or a position in the queue behind it.
  void take(Turns& turns);
  /// The call that took its turn has to wait. True: the program makes so many calls at once that they should be planned
  /// anew.
  bool note_wait(Turns& turns);
  /// The planning names of which note_wait() was true since the last call.
  std::vector<std::string> take_crowded() { return std::exchange(crowded_, {}); }

  /// No place is in force any more.
  void end() { turns_.clear(); }

 private:
  static constexpr std::uint64_t kFirstPatience = 64;
  /// Calls of a planning name that are looked at, in units of `patience_`: enough for a quarter of them to exhaust it.
  static constexpr std::uint64_t kCrowdedWindow = 8;

  std::unordered_map<std::string, Turns> turns_;  ///< by planning name
  std::uint64_t patience_ = kFirstPatience;       ///< calls that wait before they are planned anew
  std::vector<std::string> crowded_;
  std::uint64_t calls_ = 0;  ///< made
};

}  // namespace ronde::agreement
