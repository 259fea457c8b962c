// RefusedCalls: the last unnamed calls that this rank has refused for their arguments. Nobody will come for an error
// about one of them. Bounded: the others' answers are on their way for so long at most.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_set>

namespace ronde::agreement {

class RefusedCalls {
 public:
  static constexpr std::size_t kMost = 4096;

  void add(const std::string& name) {
    if (names_.insert(name).second) {
      in_order_.push_back(name);
    }
    if (in_order_.size() > kMost) {
      names_.erase(in_order_.front());
      in_order_.pop_front();
    }
  }
  bool contains(const std::string& name) const { return names_.contains(name); }

 private:
  std::deque<std::string> in_order_;
  std::unordered_set<std::string> names_;
};

}  // namespace ronde::agreement
