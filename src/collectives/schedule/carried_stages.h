// The stages in a host of operations in which its ranks carry parts for each other between hosts (carried_parts.h).
#pragma once

#include <vector>

#include "collectives/schedule/carried_parts.h"
#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

/// Calls visit(local, rank) for the other ranks of this rank's host, in an order of its own for each rank, so that not
/// all send to one at a time.
template <typename Visit>
void for_each_other_here(const HostParts& all, Visit&& visit) {
  const std::vector<int>& here = all.layout.ranks_of(all.layout.host_of(all.rank));
  const auto count = static_cast<int>(here.size());
  const int own = all.layout.local(all.rank);
  for (int distance = 1; distance < count; ++distance) {
    const int other = (own + distance) % count;
    visit(other, here[static_cast<std::size_t>(other)]);
  }
}

/// What a rank of the host carries of a slice, in its list.
inline Piece carried_piece(const CarriedParts& carried, int local, std::size_t index) {
  const Range range = carried.slices(local, index);
  return {CarriedParts::list_of(local), range.begin, range.end};
}

/// Every rank sends the others of its host what it has carried of a slice.
inline void share_carried(const HostParts& all, const CarriedParts& carried, std::size_t index, Stage& stage) {
  const Piece own = carried_piece(carried, all.layout.local(all.rank), index);
  for_each_other_here(all, [&](int local, int rank) {
    if (own.bytes() > 0) {
      stage.outgoing.push_back({rank, own});
    }
    if (const Piece theirs = carried_piece(carried, local, index); theirs.bytes() > 0) {
      stage.incoming.push_back({rank, theirs});
    }
  });
}

/// Every rank sends the others of its host its values of what these carry of a slice, and reduces what it carries, to
/// scratch memory from `scratch` on.
inline void reduce_carried(const HostParts& all, const CarriedParts& carried, std::size_t index, std::size_t scratch,
                           Stage& stage) {
  const Piece own = carried_piece(carried, all.layout.local(all.rank), index);
  for_each_other_here(all, [&](int local, int rank) {
    if (const Piece theirs = carried_piece(carried, local, index); theirs.bytes() > 0) {
      stage.outgoing.push_back({rank, theirs});
    }
    if (own.bytes() > 0) {
      stage.incoming.push_back({rank, {kKept, own.begin, own.end}});
    }
  });
  if (own.bytes() > 0) {
    stage.work = Work::reduce_to_scratch;
    stage.own = own;
    stage.scratch = scratch;
  }
}

}  // namespace ronde::collectives
