// CallCounts: how many unnamed calls each member had made when it called a barrier. A call beyond that, counted from
// the same barrier on, is one that this member will never make: whoever makes it waits in vain, and can be told at
// once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ronde::agreement {

class CallCounts {
 public:
  /// Of a number the lower bits count calls, from 1 on; the upper ones the barriers and joins before.
  static constexpr int kCallBits = 40;

  explicit CallCounts(int members) : last_(static_cast<std::size_t>(members)) {}

  /// The member's last call before a barrier, which it has called, had this number.
  void on_barrier(int member, std::uint64_t last_call);
  /// The member has called a barrier without having made the call of this number.
  bool does_not_make(int member, std::uint64_t call) const;
  /// A member that has called a barrier without having made the call of this number; none if there is none.
  std::optional<int> who_does_not_make(std::uint64_t call) const;
  /// Calls of the member in the same count as this one.
  std::uint64_t made(int member, std::uint64_t call) const;

 private:
  /// By member: barriers before -> calls since. The last few: a member is seldom a barrier ahead.
  std::vector<std::map<std::uint64_t, std::uint64_t>> last_;
};

}  // namespace ronde::agreement
