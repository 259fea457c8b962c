#include "collectives/host/shared_slice.h"

#include <algorithm>

namespace ronde::collectives {

namespace {

using transport::kLineBytes;

/// Where, counted in bytes of the list, the cut nearest behind `position` lies that is on a line of some tensor or at
/// its end.
std::size_t cut_behind(const std::vector<HeapExtent>& tensors, std::size_t position) {
  std::size_t begin = 0;
  for (const HeapExtent& tensor : tensors) {
    if (position < begin + tensor.bytes) {
      const std::size_t address = tensor.offset + (position - begin);
      const std::size_t aligned = (address + kLineBytes - 1) / kLineBytes * kLineBytes;
      return begin + std::min(aligned - tensor.offset, tensor.bytes);
    }
    begin += tensor.bytes;
  }
  return begin;
}

}  // namespace

std::vector<HeapExtent> slice_of(const std::vector<HeapExtent>& tensors, int ranks, int rank) {
  std::size_t total = 0;
  for (const HeapExtent& tensor : tensors) {
    total += tensor.bytes;
  }
  // At least two lines each: less is not worth a second rank's work.
  const std::size_t share =
      std::max((total + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks), 2 * kLineBytes);
  const auto cut = [&](int number) {
    return number == 0 ? 0 : cut_behind(tensors, std::min(share * static_cast<std::size_t>(number), total));
  };
  const std::size_t first = cut(rank);
  const std::size_t last = cut(rank + 1);
  std::vector<HeapExtent> mine;
  std::size_t begin = 0;
  for (const HeapExtent& tensor : tensors) {
    const std::size_t from = std::max(first, begin);
    const std::size_t to = std::min(last, begin + tensor.bytes);
    if (from < to) {
      mine.push_back({tensor.offset + (from - begin), to - from});
    }
    begin += tensor.bytes;
  }
  return mine;
}

SharedSlice::SharedSlice(transport::HostArena& arena, const reduce::Reduction& reduction,
                         const std::vector<HeapExtent>& tensors)
    : reducer_(reduction, static_cast<std::size_t>(arena.size())),
      mine_(slice_of(tensors, arena.size(), arena.rank())),
      inputs_(static_cast<std::size_t>(arena.size())),
      outputs_(static_cast<std::size_t>(arena.size())) {
  for (int rank = 0; rank < arena.size(); ++rank) {
    heaps_.push_back(arena.heap(rank));
  }
}

bool SharedSlice::advance(Budget& budget) {
  const std::size_t ranks = heaps_.size();
  const std::size_t most = std::max(kBudgetBytes / ranks / kLineBytes, std::size_t{1}) * kLineBytes;
  while (extent_ < mine_.size()) {
    const HeapExtent& extent = mine_[extent_];
    const std::size_t bytes = std::min(most, extent.bytes - at_);
    if (!budget.allows(bytes * ranks)) {
      return false;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      inputs_[rank] = outputs_[rank] = heaps_[rank] + extent.offset + at_;
    }
    reducer_.to_all(inputs_.data(), bytes / reducer_.element_bytes(), outputs_);
    budget.spend(bytes * ranks);
    at_ += bytes;
    if (at_ == extent.bytes) {
      ++extent_;
      at_ = 0;
    }
  }
  return true;
}

}  // namespace ronde::collectives
