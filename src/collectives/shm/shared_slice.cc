#include "collectives/shm/shared_slice.h"

#include <algorithm>

#include "base/round_up.h"

namespace ronde::collectives {

namespace {

using transport::kLineBytes;

/// Where, counted in bytes of the list, the cut nearest behind `position` lies that is on a line of some tensor or at
/// its end.
std::size_t cut_behind(const std::vector<SharedTensor>& tensors, std::size_t position) {
  std::size_t begin = 0;
  for (const SharedTensor& tensor : tensors) {
    if (position < begin + tensor.bytes) {
      const std::size_t offset = static_cast<std::size_t>(tensor.places.front().input) % kLineBytes;
      const std::size_t aligned = round_up(offset + (position - begin), kLineBytes);
      return begin + std::min(aligned - offset, tensor.bytes);
    }
    begin += tensor.bytes;
  }
  return begin;
}

}  // namespace

std::vector<Extent> slice_of(const std::vector<SharedTensor>& tensors, int ranks, int rank) {
  std::size_t total = 0;
  for (const SharedTensor& tensor : tensors) {
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
  std::vector<Extent> mine;
  std::size_t begin = 0;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const std::size_t from = std::max(first, begin);
    const std::size_t to = std::min(last, begin + tensors[tensor].bytes);
    if (from < to) {
      mine.push_back({tensor, from - begin, to - from});
    }
    begin += tensors[tensor].bytes;
  }
  return mine;
}

SharedSlice::SharedSlice(transport::HostArena& arena, const reduce::Reduction& reduction,
                         const std::vector<SharedTensor>& tensors)
    : reducer_(reduction, static_cast<std::size_t>(arena.size())),
      ranks_(static_cast<std::size_t>(arena.size())),
      most_(std::max(kBudgetBytes / ranks_ / kLineBytes, std::size_t{1}) * kLineBytes),
      mine_(slice_of(tensors, arena.size(), arena.rank())),
      inputs_(ranks_),
      outputs_(ranks_) {
  for (const Extent& extent : mine_) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const MemoryPlace& place = tensors[extent.tensor].places[rank];
      std::byte* const heap = arena.heap(static_cast<int>(rank)) + extent.begin;
      begins_.push_back({heap + place.input, heap + place.output});
    }
  }
}

bool SharedSlice::advance(Budget& budget) {
  const reduce::DefaultArithmetic arithmetic;
  while (extent_ < mine_.size()) {
    const Extent& extent = mine_[extent_];
    const std::size_t bytes = std::min(most_, extent.bytes - at_);
    if (!budget.allows(bytes * ranks_)) {
      return false;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const Begin& begin = begins_[extent_ * ranks_ + rank];
      inputs_[rank] = begin.input + at_;
      outputs_[rank] = begin.output + at_;
    }
    reducer_.to_all(arithmetic, inputs_.data(), reducer_.elements(bytes), outputs_);
    budget.spend(bytes * ranks_);
    at_ += bytes;
    if (at_ == extent.bytes) {
      ++extent_;
      at_ = 0;
    }
  }
  return true;
}

}  // namespace ronde::collectives
