#include "agreement/call_counts.h"

namespace ronde::agreement {

namespace {

constexpr std::size_t kKept = 16;

std::uint64_t count_of(std::uint64_t number) { return number & ((std::uint64_t{1} << CallCounts::kCallBits) - 1); }
std::uint64_t barriers_of(std::uint64_t number) { return number >> CallCounts::kCallBits; }

}  // namespace

void CallCounts::on_barrier(int member, std::uint64_t last_call) {
  std::map<std::uint64_t, std::uint64_t>& own = last_[static_cast<std::size_t>(member)];
  own[barriers_of(last_call)] = count_of(last_call);
  if (own.size() > kKept) {
    own.erase(own.begin());
  }
}

bool CallCounts::does_not_make(int member, std::uint64_t call) const {
  const std::map<std::uint64_t, std::uint64_t>& own = last_[static_cast<std::size_t>(member)];
  const auto found = own.find(barriers_of(call));
  return found != own.end() && found->second < count_of(call);
}

std::optional<int> CallCounts::who_does_not_make(std::uint64_t call) const {
  for (int member = 0; member < static_cast<int>(last_.size()); ++member) {
    if (does_not_make(member, call)) {
      return member;
    }
  }
  return std::nullopt;
}

std::uint64_t CallCounts::made(int member, std::uint64_t call) const {
  const auto found = last_[static_cast<std::size_t>(member)].find(barriers_of(call));
  return found == last_[static_cast<std::size_t>(member)].end() ? 0 : found->second;
}

}  // namespace ronde::agreement
