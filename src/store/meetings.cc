#include "store/meetings.h"

#include <algorithm>

#include "store/rendezvous_text.h"

namespace ronde::store {

namespace {

/// A job has few meetings; what a store remembers of them is bounded all the same.
constexpr std::size_t kMostMet = 1024;

}  // namespace

Result<std::shared_ptr<const Complete>> Meetings::join(ClientId client, const std::string& scope_name, int rank,
                                                       int size, Value value, Nanoseconds limit, Nanoseconds now) {
  Scope& scope = scopes_[scope_name];
  if (scope.members.empty()) {
    scope.members.resize(static_cast<std::size_t>(size));
  }
  const auto index = static_cast<std::size_t>(rank);
  if (scope.members.size() != static_cast<std::size_t>(size) || scope.members[index].state == Member::State::waiting) {
    return claim_refused(scope_name, rank, size);
  }
  scope.members[index] = {Member::State::waiting, client, std::move(value), limit, later(now, limit)};
  if (++scope.waiting < size) {
    places_.emplace(client, Place{scope_name, rank});
    return std::shared_ptr<const Complete>();
  }
  auto complete = std::make_shared<Complete>();
  for (Member& member : scope.members) {
    complete->values.push_back(std::move(member.value));
    complete->members.push_back(member.client);
    places_.erase(member.client);
  }
  scopes_.erase(scope_name);
  if (met_.size() < kMostMet) {
    met_.insert(scope_name);
  }
  return std::shared_ptr<const Complete>(std::move(complete));
}

void Meetings::leave(ClientId client) { withdraw(client, Member::State::absent); }

void Meetings::withdraw(ClientId client, Member::State state) {
  const auto place = places_.find(client);
  if (place == places_.end()) {
    return;
  }
  const auto scope = scopes_.find(place->second.scope);
  Member& member = scope->second.members[static_cast<std::size_t>(place->second.rank)];
  member = {};
  member.state = state;
  places_.erase(place);
  if (--scope->second.waiting == 0) {
    scopes_.erase(scope);
  }
}

std::vector<Expired> Meetings::expire(Nanoseconds now) {
  std::vector<Expired> expired;
  for (const auto& [name, scope] : scopes_) {
    for (const Member& member : scope.members) {
      if (member.state == Member::State::waiting && member.deadline <= now) {
        const Status missing = missing_ranks(name, come(scope), member.limit);
        const auto rank = &member - scope.members.data();
        expired.push_back(
            {member.client, met_.contains(name) ? met_without(missing, static_cast<int>(rank)) : missing});
      }
    }
  }
  for (const Expired& each : expired) {
    withdraw(each.client, Member::State::gave_up);
  }
  return expired;
}

std::vector<bool> Meetings::come(const Scope& scope) {
  std::vector<bool> come;
  for (const Member& member : scope.members) {
    come.push_back(member.state != Member::State::absent);
  }
  if (std::find(come.begin(), come.end(), false) == come.end()) {
    // All have come, but not at the same time: then those who left again are what is missing.
    for (std::size_t i = 0; i < come.size(); ++i) {
      come[i] = scope.members[i].state == Member::State::waiting;
    }
  }
  return come;
}

Nanoseconds Meetings::next_deadline() const {
  Nanoseconds next = kNever;
  for (const auto& [name, scope] : scopes_) {
    for (const Member& member : scope.members) {
      if (member.state == Member::State::waiting) {
        next = std::min(next, member.deadline);
      }
    }
  }
  return next;
}

ClientId Meetings::holder(const std::string& scope_name, int rank) const {
  const auto scope = scopes_.find(scope_name);
  if (scope == scopes_.end() || static_cast<std::size_t>(rank) >= scope->second.members.size()) {
    return 0;
  }
  const Member& member = scope->second.members[static_cast<std::size_t>(rank)];
  return member.state == Member::State::waiting ? member.client : 0;
}

}  // namespace ronde::store
