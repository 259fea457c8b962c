#include "agreement/name_histories.h"

#include <algorithm>

namespace ronde::agreement {

// ---- One name

bool NameHistory::on_exec(const Descriptor& agreed, const MemoryPlaces& agreed_places, const Round& round) {
  const bool is_equal = known && descriptor == agreed && places == agreed_places;
  if (!is_equal) {
    changes += known ? 1 : 0;
    known = true;
    same = 0;
    before_mark = answers;
    descriptor = agreed;
    places = agreed_places;
  }
  ++same;
  ++since_break;
  add(round);
  return is_equal;
}

void NameHistory::on_error() {
  same = 0;
  since_break = 0;
  add({});
}

/// The call counts for the phase. It came to nothing good here: in force it would have kept its ranks waiting.
void NameHistory::on_other_calls() {
  on_error();
  never |= ++other_calls == kMostOtherCalls;
}

void NameHistory::add(const Round& round) {
  ++answers;
  std::rotate(rounds.begin(), rounds.end() - 1, rounds.end());
  rounds.front() = round;
}

std::uint32_t NameHistory::answers_needed() const {
  if (!has_changed_often()) {
    return kEqualAnswers;
  }
  return kEqualAnswers << std::min(changes - kFewChanges + 2, kMostDoublings);
}

// ---- All names

NameHistory& NameHistories::answered(const std::string& name) {
  if (histories_.size() >= forget_at_) {
    forget_names_that_came_once();
  }
  const auto found = histories_.try_emplace(name).first;
  found->second.name = &found->first;
  found->second.order = ++order_;
  return found->second;
}

/// Programs may number their requests: without this the histories would grow for ever.
void NameHistories::forget_names_that_came_once() {
  std::erase_if(histories_, [](const auto& entry) {
    const NameHistory& history = entry.second;
    return history.bucket == NameHistory::kNoBucket && !history.is_candidate && !history.is_persistent &&
           history.answers <= 1;
  });
  forget_at_ = std::max(kNamesKept, 2 * histories_.size());
}

void NameHistories::on_break() {
  for (auto& [name, history] : histories_) {
    history.on_break();
  }
}

NameHistory* NameHistories::find(const std::string& name) {
  const auto found = histories_.find(name);
  return found == histories_.end() ? nullptr : &found->second;
}

const NameHistory* NameHistories::find(const std::string& name) const {
  const auto found = histories_.find(name);
  return found == histories_.end() ? nullptr : &found->second;
}

}  // namespace ronde::agreement
