// CarriedParts: where each rank of a group has a part, which of them a host's ranks carry between hosts, each for the
// others of its host: the parts of ranks of the same place on their hosts, or where there are fewer here, of the places
// that are left over. A rank's own part is among those that it carries.
//
// Parts are cut into slices. What a rank carries is seen as one list: slice after slice, of each the parts in the order
// of ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/gather_list.h"
#include "collectives/schedule/rank_layout.h"
#include "collectives/slices.h"

namespace ronde::collectives {

class CarriedParts {
 public:
  /// Lists of schedules: this rank's own part, and what a rank of its host carries.
  static constexpr int kOwnPart = 0;
  static int list_of(int local) { return 1 + local; }

  /// `bytes`: of each rank's part; `slice`: of a part at most.
  CarriedParts(const RankLayout& layout, int host, std::vector<std::size_t> bytes, std::size_t slice)
      : bytes_(std::move(bytes)), slice_(slice), parts_(layout.ranks_of(host).size()) {
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      parts_[static_cast<std::size_t>(layout.local(rank)) % parts_.size()].push_back(rank);
    }
  }

  /// The rank of a host that carries this one's part there.
  static int carrier(const RankLayout& layout, int rank, int host) {
    const std::vector<int>& there = layout.ranks_of(host);
    return there[static_cast<std::size_t>(layout.local(rank)) % there.size()];
  }

  /// Ranks whose parts it carries, in order.
  const std::vector<int>& parts(int local) const { return parts_[static_cast<std::size_t>(local)]; }
  /// Of a rank's part.
  Range slice(int rank, std::size_t index) const { return {before(rank, index), before(rank, index + 1)}; }
  /// In the list of what a rank of the host carries.
  Range slices(int local, std::size_t index) const {
    Range all;
    for (const int rank : parts(local)) {
      all.begin += before(rank, index);
      all.end += before(rank, index + 1);
    }
    return all;
  }
  /// Calls visit(rank, range) for each of the parts in it.
  template <typename Visit>
  void for_each_slice_in(int local, std::size_t index, Visit&& visit) const {
    std::size_t begin = slices(local, index).begin;
    for (const int rank : parts(local)) {
      const std::size_t end = begin + slice(rank, index).bytes();
      visit(rank, Range{begin, end});
      begin = end;
    }
  }
  /// How many slices there are.
  std::size_t count() const {
    const std::size_t longest = *std::max_element(bytes_.begin(), bytes_.end());
    return (longest + slice_ - 1) / slice_;
  }

  /// The list, made of lists of all parts by rank: `append(list, part, slice)` is to add a slice of a part to it.
  template <typename Append>
  GatherList list(int local, Append&& append) const {
    GatherList made;
    for (std::size_t index = 0; index < count(); ++index) {
      for (const int rank : parts(local)) {
        append(made, rank, slice(rank, index));
      }
    }
    return made;
  }

 private:
  /// Bytes of a rank's part in the slices before this one.
  std::size_t before(int rank, std::size_t index) const {
    return std::min(index * slice_, bytes_[static_cast<std::size_t>(rank)]);
  }

  const std::vector<std::size_t> bytes_;
  const std::size_t slice_;
  std::vector<std::vector<int>> parts_;  ///< by place on the host
};

/// Bytes of a slice, so that what a rank carries for all hosts goes in messages of about `most` bytes in its host.
inline std::size_t carried_slice(const RankLayout& layout, std::size_t most) {
  constexpr std::size_t kLeast = std::size_t{16} << 10;  // a message of less costs as much
  const std::size_t parts =
      (static_cast<std::size_t>(layout.hosts()) * layout.most() + layout.fewest() - 1) / layout.fewest();
  return std::min(most, std::max(kLeast, round_up_to_line(most / parts)));
}

}  // namespace ronde::collectives
