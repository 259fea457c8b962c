// MappedHeap: the own heap of a rank of a host, over memory that shm or loopback has come by.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"
#include "transport/arena/mapping.h"
#include "transport/arena/memory_promises.h"
#include "transport/arena/own_heap.h"
#include "transport/arena/page_ranges.h"

namespace ronde::transport {

class MappedHeap final : public OwnHeap {
 public:
  /// Where the heap lies.
  struct Place {
    std::shared_ptr<const Mapping> mapping;
    std::byte* begin = nullptr;  ///< within the mapping
    std::size_t bytes = 0;       ///< 0: there is no heap
    std::size_t engine_bytes = 0;
    UniqueFd memfd = UniqueFd();  ///< the region's; none where the ranks are one process
    std::size_t file_offset = 0;  ///< of `begin` in it
  };

  MappedHeap(Place place, MemoryPromises promises)
      : OwnHeap(place.begin, place.bytes, place.engine_bytes),
        mapping_(std::move(place.mapping)),
        memfd_(std::move(place.memfd)),
        file_offset_(place.file_offset),
        promises_(std::move(promises)) {}

  Status commit(std::size_t offset, std::size_t bytes) override;
  void discard(std::size_t offset, std::size_t bytes) override;
  void withdraw(std::size_t offset, std::size_t bytes) override;
  bool is_withdrawn(std::size_t offset, std::size_t bytes) const override;
  Status make_private(std::size_t offset, std::size_t bytes) override;
  std::shared_ptr<const void> memory() const override { return mapping_; }

 private:
  const std::shared_ptr<const Mapping> mapping_;
  const UniqueFd memfd_;  ///< pages are made private by it, and on kernels before Linux 5.14 made
  const std::size_t file_offset_;
  const MemoryPromises promises_;
  std::atomic<bool> any_withdrawn_{false};
  mutable std::mutex pages_mutex_;
  PageRanges withdrawn_;  ///< guarded by pages_mutex_
  PageRanges private_;    ///< guarded by pages_mutex_; a part of these
};

}  // namespace ronde::transport
