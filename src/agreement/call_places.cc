#include "agreement/call_places.h"

#include <algorithm>

namespace ronde::agreement {

void CallPlaces::begin(const std::string& planning_name, std::uint32_t turn, std::uint32_t place) {
  Turns& turns = turns_[planning_name];
  turns.places.resize(std::max<std::size_t>(turns.places.size(), turn + 1));
  turns.places[turn] = place;
}

CallPlaces::Turns* CallPlaces::find(const std::string& planning_name) {
  const auto found = turns_.find(planning_name);
  return found == turns_.end() ? nullptr : &found->second;
}

/// What the program did long ago says nothing about what it does now: old calls fade, by half at a time.
void CallPlaces::take(Turns& turns) {
  ++turns.next;
  if (++turns.recent >= kCrowdedWindow * patience_) {
    turns.recent /= 2;
    turns.queued /= 2;
  }
}

/// A program that made its calls one by one when they were planned, and makes lists of them now, would have these
/// reduced one by one for ever: in force nobody looks at bursts. So they are planned anew, which takes a break.
/// Programs whose threads call at once, say, gain nothing by that: each break takes twice as many calls as the one
/// before.
bool CallPlaces::note_wait(Turns& turns) {
  const auto is_crowded = [](const Turns& each) { return 4 * each.queued >= each.recent; };
  if (++turns.queued < patience_ || !is_crowded(turns)) {
    return false;
  }
  patience_ *= 2;
  for (const auto& [planning_name, each] : turns_) {
    if (each.queued > 0 && is_crowded(each)) {
      crowded_.push_back(planning_name);
    }
  }
  return true;
}

}  // namespace ronde::agreement
