#include "agreement/request_table.h"

#include <algorithm>

namespace ronde::agreement {

std::uint32_t RequestTable::intern(const std::string& name) {
  const auto next = unused_.empty() ? static_cast<std::uint32_t>(entries_.size()) : unused_.back();
  const auto [found, is_new] = index_of_.emplace(name, next);
  if (!is_new) {
    return found->second;
  }
  if (unused_.empty()) {
    entries_.emplace_back();
  } else {
    unused_.pop_back();
    entries_[next] = {};
  }
  entries_[next].name = name;
  return next;
}

void RequestTable::drop_if_idle(std::uint32_t index) {
  const RequestEntry& entry = entries_[index];
  if (entry.kept == 0 && entry.lane == Lane::none && entry.owed.empty() && index_of_.erase(entry.name) > 0) {
    unused_.push_back(index);
  }
}

std::optional<std::uint32_t> RequestTable::find(const std::string& name) const {
  const auto found = index_of_.find(name);
  return found == index_of_.end() ? std::nullopt : std::optional(found->second);
}

void RequestTable::move(RequestEntry& entry, Lane lane) {
  sent_ += static_cast<std::size_t>(lane == Lane::sent) - static_cast<std::size_t>(entry.lane == Lane::sent);
  outstanding_ += static_cast<std::size_t>(lane != Lane::none) - static_cast<std::size_t>(entry.lane != Lane::none);
  entry.lane = lane;
}

void RequestTable::forgive_all() {
  for (std::uint32_t index = 0; index < entries_.size(); ++index) {
    if (entries_[index].owes) {
      entries_[index].forgive();
      drop_if_idle(index);
    }
  }
}

Nanoseconds RequestTable::next_deadline() const {
  Nanoseconds next = kNever;
  for (const RequestEntry& entry : entries_) {
    if (entry.lane == Lane::sent || entry.lane == Lane::held) {
      next = std::min(next, entry.deadline);
    }
  }
  return next;
}

std::optional<std::string> RequestTable::overdue(Nanoseconds now, Nanoseconds grace) const {
  for (const RequestEntry& entry : entries_) {
    if (entry.lane == Lane::sent && now >= later(entry.deadline, grace)) {
      return entry.name;
    }
  }
  return std::nullopt;
}

}  // namespace ronde::agreement
