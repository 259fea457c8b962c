// MappedHeap: the own heap of a rank of a host, over memory that shm or loopback has come by.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"
#include "transport/arena/mapping.h"
#include "transport/arena/memory_promises.h"
#include "transport/arena/own_heap.h"
#include "transport/arena/withdrawn_pages.h"

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
        promises_(std::move(promises)),
        withdrawn_(begin(), memfd_.is_open() ? memfd_.get() : -1, file_offset_) {}

  Status commit(std::size_t offset, std::size_t bytes) override;
  void discard(std::size_t offset, std::size_t bytes) override;
  void withdraw(std::size_t offset, std::size_t bytes) override { withdrawn_.withdraw(offset, bytes); }
  bool is_withdrawn(std::size_t offset, std::size_t bytes) const override {
    return withdrawn_.is_withdrawn(offset, bytes);
  }
  Status make_private(std::size_t offset, std::size_t bytes) override { return withdrawn_.make_private(offset, bytes); }
  std::shared_ptr<const void> memory() const override { return mapping_; }

 private:
  const std::shared_ptr<const Mapping> mapping_;
  const UniqueFd memfd_;  ///< of the region; on kernels before Linux 5.14 pages are made by it
  const std::size_t file_offset_;
  const MemoryPromises promises_;
  WithdrawnPages withdrawn_;
};

}  // namespace ronde::transport
