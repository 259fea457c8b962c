#include "agreement/held_requests.h"

#include <algorithm>

namespace ronde::agreement {

const Descriptor& HeldRequest::first_descriptor() const {
  return descriptors[static_cast<std::size_t>(std::find(has.begin(), has.end(), true) - has.begin())];
}

std::set<std::string> HeldRequest::all_planning_names() const {
  std::set<std::string> names;
  for (std::size_t i = 0; i < planning_names.size(); ++i) {
    if (has[i] && !planning_names[i].empty()) {
      names.insert(planning_names[i]);
    }
  }
  return names;
}

const HeldRequest* HeldRequests::add(int member, control::RequestMessage request, Nanoseconds now) {
  HeldRequest& held = held_[request.name];
  if (held.count == 0) {
    held.has.assign(members_, false);
    held.descriptors.resize(members_);
    held.call_sites.resize(members_);
    held.since = now;
    held.order = ++orders_;
  }
  const auto index = static_cast<std::size_t>(member);
  if (held.has[index]) {
    return nullptr;
  }
  held.has[index] = true;
  held.since = std::min(held.since, now - request.waited);
  held.descriptors[index] = std::move(request.descriptor);
  held.call_sites[index] = std::move(request.call_site);
  if (!request.planning_name.empty()) {
    held.planning_names.resize(members_);
    held.planning_names[index] = std::move(request.planning_name);
  }
  ++held.count;
  if (held.descriptors[index].kind != OpKind::barrier) {
    held.call_number = request.call_number;
  }
  held.asked = std::max(held.asked, request.position);
  const Nanoseconds deadline = later(now, request.timeout);
  if (deadline < held.deadline) {
    forget_deadline(request.name, held);
    held.deadline = deadline;
    deadlines_.emplace(deadline, request.name);
  }
  return &held;
}

const HeldRequest* HeldRequests::find(const std::string& name) const {
  const auto found = held_.find(name);
  return found == held_.end() ? nullptr : &found->second;
}

std::optional<HeldRequest> HeldRequests::take(const std::string& name) {
  const auto found = held_.find(name);
  if (found == held_.end()) {
    return std::nullopt;
  }
  forget_deadline(name, found->second);
  std::optional<HeldRequest> taken(std::move(found->second));
  held_.erase(found);
  return taken;
}

void HeldRequests::forget_deadline(const std::string& name, const HeldRequest& held) {
  if (held.deadline != kNever) {
    deadlines_.erase({held.deadline, name});
  }
}

void HeldRequests::forget_calls(const std::set<std::string>& planning_names) {
  for (auto each = held_.begin(); each != held_.end();) {
    HeldRequest& held = each->second;
    for (std::size_t i = 0; i < held.has.size(); ++i) {
      if (held.has[i] && !held.planning_names.empty() && planning_names.contains(held.planning_names[i])) {
        held.has[i] = false;
        --held.count;
      }
    }
    if (held.count == 0) {
      forget_deadline(each->first, held);
      each = held_.erase(each);
    } else {
      ++each;
    }
  }
}

void HeldRequests::clear() {
  held_.clear();
  deadlines_.clear();
}

std::vector<std::string> HeldRequests::names_where(const std::function<bool(const HeldRequest&)>& condition) const {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const auto& [name, held] : held_) {
    if (condition(held)) {
      found.emplace_back(held.order, name);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [order, name] : found) {
    names.push_back(std::move(name));
  }
  return names;
}

bool HeldRequests::any_from(int member) const {
  return std::any_of(held_.begin(), held_.end(), [member](const auto& each) { return each.second.is_from(member); });
}

std::optional<std::string> HeldRequests::overdue(Nanoseconds now) const {
  return next_deadline() <= now && !deadlines_.empty() ? std::optional(deadlines_.begin()->second) : std::nullopt;
}

std::vector<observe::Waiting> HeldRequests::waiting(const std::vector<int>& ranks,
                                                    const std::vector<bool>& joined) const {
  std::vector<observe::Waiting> all;
  for (const auto& [name, held] : held_) {
    observe::Waiting entry;
    entry.name = name;
    entry.since = held.since;
    for (std::size_t i = 0; i < held.has.size(); ++i) {
      if (held.has[i] || !joined[i]) {
        (held.has[i] ? entry.ready : entry.missing).push_back(ranks[i]);
      }
    }
    entry.what = descriptor_text(held.first_descriptor());
    all.push_back(std::move(entry));
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.since != b.since ? a.since < b.since : a.name < b.name; });
  return all;
}

}  // namespace ronde::agreement
