#include "collectives/parts.h"

#include <algorithm>

namespace ronde::collectives {

std::size_t row_bytes(const PlanMember& member) {
  std::size_t bytes = dtype_bytes(member.input.dtype);
  for (std::size_t i = 1; i < member.input.shape.size(); ++i) {
    bytes *= static_cast<std::size_t>(member.input.shape[i]);
  }
  return bytes;
}

/// Of part(from, to) of member m.
std::size_t Parts::rows(std::size_t m, std::size_t from, std::size_t to) const {
  if (plan_.kind == OpKind::reduce) {
    return to == static_cast<std::size_t>(plan_.root) ? static_cast<std::size_t>(plan_.members[m].input.elements()) : 0;
  }
  if (plan_.kind == OpKind::allgather) {
    return static_cast<std::size_t>(plan_.rows[m][from]);
  }
  return static_cast<std::size_t>(hands_over_ ? plan_.rows[m][from * ranks_ + to] : plan_.rows[m][to]);
}

/// What counts as a row, in bytes: of a reduce, which may have no dimension, an element.
std::size_t Parts::row(const PlanMember& member) const {
  return plan_.kind == OpKind::reduce ? dtype_bytes(plan_.dtype) : row_bytes(member);
}

std::size_t Parts::bytes(std::size_t from, std::size_t to) const {
  std::size_t bytes = 0;
  for (std::size_t m = 0; m < plan_.members.size(); ++m) {
    bytes += rows(m, from, to) * row(plan_.members[m]);
  }
  return bytes;
}

std::size_t Parts::longest() const {
  std::size_t longest = 0;
  for (std::size_t from = 0; from < ranks_; ++from) {
    for (std::size_t to = 0; to < ranks_; ++to) {
      longest = std::max(longest, bytes(from, to));
    }
  }
  return longest;
}

GatherList Parts::outgoing(std::size_t own, std::size_t peer) const {
  GatherList list;
  for (std::size_t m = 0; m < plan_.members.size(); ++m) {
    const PlanMember& member = plan_.members[m];
    std::size_t before = 0;
    for (std::size_t to = 0; plan_.kind != OpKind::allgather && to < peer; ++to) {
      before += rows(m, own, to);
    }
    list.append(static_cast<const std::byte*>(member.input.data) + before * row(member), written_at(m, own, own),
                rows(m, own, peer) * row(member));
  }
  return list;
}

GatherList Parts::incoming(std::size_t own, std::size_t peer) const {
  GatherList list;
  for (std::size_t m = 0; m < plan_.members.size(); ++m) {
    std::byte* const to = written_at(m, own, peer);
    list.append(to, to, rows(m, peer, own) * row(plan_.members[m]));
  }
  return list;
}

/// Where part(peer, own) of member m is written.
std::byte* Parts::written_at(std::size_t m, std::size_t own, std::size_t peer) const {
  const PlanMember& member = plan_.members[m];
  std::size_t before = 0;
  for (std::size_t from = 0; hands_over_ && from < peer; ++from) {
    before += rows(m, from, own);
  }
  return static_cast<std::byte*>(member.output.data) + before * row(member);
}

}  // namespace ronde::collectives
