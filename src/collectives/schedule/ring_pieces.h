// Parts of hosts that follow each other in a ring, as pieces of a list in which they lie in the hosts' order: one
// piece, or two where the ring's last host and its first are among them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "collectives/schedule/schedule.h"

namespace ronde::collectives {

struct RingPieces {
  Piece first;
  Piece rest;  ///< without bytes where there is one piece
  std::size_t bytes() const { return first.bytes() + rest.bytes(); }
};

/// Those of `count` hosts from the one that is `ahead` of `own` on. `piece_of(begin, end)`: the parts of hosts
/// [begin, end), of none where these are equal.
template <typename PieceOf>
RingPieces ring_pieces(std::size_t hosts, std::size_t own, std::size_t ahead, std::size_t count, PieceOf&& piece_of) {
  const std::size_t begin = (own + ahead) % hosts;
  const std::size_t end = std::min(begin + count, hosts);
  RingPieces pieces{piece_of(begin, end), piece_of(std::size_t{0}, begin + count - end)};
  if (pieces.first.bytes() == 0) {
    std::swap(pieces.first, pieces.rest);
  }
  return pieces;
}

}  // namespace ronde::collectives
