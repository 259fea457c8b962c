#include "engine/groups/member_groups.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/core/engine.h"

namespace ronde::engine {

/// What the members say, in the order of the group. `own`: this rank's number there.
Result<std::vector<GroupWord>> MemberGroups::meet(const Meeting& meeting, const std::string& what, int own,
                                                  const GroupWord& word) {
  if (meeting.store == nullptr) {
    return std::vector<GroupWord>{word};
  }
  store::Value value;
  value.bytes = encode(word);
  RONDE_ASSIGN_OR_RETURN(const std::vector<store::Value> values,
                         meeting.store->exchange(meeting.name + what, own, meeting.size, std::move(value),
                                                 time_left(RealClock(), meeting.deadline)));
  std::vector<GroupWord> words;
  for (const store::Value& each : values) {
    RONDE_ASSIGN_OR_RETURN(std::vector<GroupWord> one, decode_words(each.bytes, 1));
    words.push_back(std::move(one.front()));
  }
  return words;
}

Result<std::int32_t> MemberGroups::make(const std::vector<int>& ranks, const Meeting& meeting, Nanoseconds timeout) {
  RONDE_RETURN_IF_ERROR(only_outside_of_callbacks("made"));
  RONDE_RETURN_IF_ERROR(groups_.check_ranks(ranks));
  const auto found = std::find(ranks.begin(), ranks.end(), own_rank_);
  if (found == ranks.end()) {
    return Status::error(Code::invalid_argument,
                         "rank " + std::to_string(own_rank_) + " makes a group to which it does not belong");
  }
  const int own = static_cast<int>(found - ranks.begin());
  std::optional<GroupPart> part;
  const GroupWord word = groups_.reserve(ranks, part);
  const Result<std::vector<GroupWord>> members = meet(meeting, "/wanted", own, word);
  if (!members) {
    groups_.abandon(part);
    return members.status();
  }
  if (Status wanted = first_problem(members.value(), ranks); !wanted) {
    groups_.give_back(part);
    return wanted;
  }
  const std::int32_t id = ids_.take_own();
  Result<std::shared_ptr<Engine>> made = groups_.open(*part, id, members.value(), timeout);
  const Result<std::vector<GroupWord>> all = meet(meeting, "/made", own, {{}, {}, made.status()});
  const Status opened = all ? first_problem(all.value(), ranks) : all.status();
  if (!opened) {
    made = opened;  // the engine is gone before its part is
    groups_.abandon(part);
    return opened;
  }
  groups_.add(id, std::move(part), std::move(made).value());
  return id;
}

Status MemberGroups::leave(std::int32_t id) {
  RONDE_RETURN_IF_ERROR(only_outside_of_callbacks("removed"));
  return groups_.leave(id);
}

}  // namespace ronde::engine
