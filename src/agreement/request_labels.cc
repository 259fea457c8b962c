#include "agreement/request_labels.h"

#include <algorithm>

namespace ronde::agreement {

bool RequestLabels::is_late(const std::string& name, std::uint64_t label) const {
  const auto last = last_.find(name);
  return last != last_.end() && label < last->second;
}

bool RequestLabels::is_late(const control::RequestMessage& request) const {
  return is_late(request.name, request.label) ||
         (!request.planning_name.empty() && is_late(request.planning_name, request.label));
}

void RequestLabels::concerns(const std::string& name) {
  last_[name] = entries_;
  in_order_.emplace_back(entries_, name);
}

void RequestLabels::on_label(int member, std::uint64_t label) {
  std::uint64_t& read = read_[static_cast<std::size_t>(member)];
  const std::uint64_t before = std::exchange(read, std::max(read, label));
  if (in_order_.empty() || before >= in_order_.front().first) {
    return;
  }
  const std::uint64_t read_by_all = *std::min_element(read_.begin(), read_.end());
  while (!in_order_.empty() && in_order_.front().first <= read_by_all) {
    const auto& [entry, name] = in_order_.front();
    const auto found = last_.find(name);
    if (found != last_.end() && found->second == entry) {
      last_.erase(found);
    }
    in_order_.pop_front();
  }
}

}  // namespace ronde::agreement
