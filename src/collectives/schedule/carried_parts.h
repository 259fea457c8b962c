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

/// Of an operation in which each rank has a part.
struct HostParts {
  int rank = 0;
  RankLayout layout;
  std::vector<std::size_t> bytes;  ///< of each rank's part
  std::size_t slice = 0;           ///< bytes of a part's slice at most, a multiple of 128: the same on every rank
};

class CarriedParts {
 public:
  /// Lists of schedules: this rank's own part, and what a rank of its host carries.
  static constexpr int kOwnPart = 0;
  static int list_of(int local) { return 1 + local; }

  /// By the ranks of this rank's host.
  explicit CarriedParts(const HostParts& all)
      : bytes_(all.bytes), slice_(all.slice), parts_(all.layout.ranks_of(all.layout.host_of(all.rank)).size()) {
    for (int rank = 0; rank < all.layout.ranks(); ++rank) {
      parts_[static_cast<std::size_t>(all.layout.local(rank)) % parts_.size()].push_back(rank);
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

  /// Lists of what each rank of the host carries, in their order. `append(list, part, slice)` adds a slice of a part.
  template <typename Append>
  std::vector<GatherList> lists(Append&& append) const {
    std::vector<GatherList> made(parts_.size());
    for (std::size_t local = 0; local < parts_.size(); ++local) {
      for (std::size_t index = 0; index < count(); ++index) {
        for (const int rank : parts_[local]) {
          append(made[local], rank, slice(rank, index));
        }
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
