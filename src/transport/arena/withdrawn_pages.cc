#include "transport/arena/withdrawn_pages.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "transport/arena/mapping.h"

namespace ronde::transport {

void WithdrawnPages::withdraw(std::size_t offset, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  withdrawn_.add(PageRanges::whole_pages(offset, bytes, pages::bytes_of_one()));
  any_.store(true, std::memory_order_release);
}

bool WithdrawnPages::is_withdrawn(std::size_t offset, std::size_t bytes) const {
  if (!any_.load(std::memory_order_acquire)) {
    return false;
  }
  std::lock_guard lock(mutex_);
  return !withdrawn_.common_with({offset, offset + bytes}).empty();
}

void WithdrawnPages::discard(std::size_t offset, std::size_t bytes) {
  if (!is_withdrawn(offset, bytes)) {
    pages::take(heap_ + offset, bytes);
    return;
  }
  std::lock_guard lock(mutex_);
  for (const PageRanges::Range& range : private_.common_with({offset, offset + bytes})) {
    pages::take_private(heap_ + range.begin, range.end - range.begin);
  }
  for (const PageRanges::Range& range : withdrawn_.missing_from({offset, offset + bytes})) {
    pages::take(heap_ + range.begin, range.end - range.begin);
  }
}

/// First the pages of which only a part is meant, whose other contents stay, then those between them.
Status WithdrawnPages::make_private(std::size_t offset, std::size_t bytes) {
  if (memfd_ < 0) {
    return {};  // the ranks are one process
  }
  const std::size_t page = pages::bytes_of_one();
  std::lock_guard lock(mutex_);
  for (const PageRanges::Range& shared : private_.missing_from(PageRanges::whole_pages(offset, bytes, page))) {
    const std::size_t first = shared.begin < offset ? shared.begin + page : shared.begin;
    const std::size_t last = std::max(first, shared.end > offset + bytes ? shared.end - page : shared.end);
    int error = make_private({shared.begin, first}, true);
    error = error == 0 ? make_private({last, shared.end}, true) : error;
    error = error == 0 ? make_private({first, last}, false) : error;
    if (error != 0) {
      return Status::from_errno("making " + std::to_string(bytes) + " bytes of shared memory private", error);
    }
  }
  return {};
}

/// The error's number, 0 if all went well. Requires: the lock.
int WithdrawnPages::make_private(PageRanges::Range range, bool keeps_contents) {
  if (range.begin >= range.end) {
    return 0;
  }
  const std::size_t bytes = range.end - range.begin;
  const std::size_t at = file_offset_ + range.begin;
  if (const int error = pages::make_private(heap_ + range.begin, bytes, memfd_, at, keeps_contents); error != 0) {
    return error;
  }
  private_.add(range);
  if (!keeps_contents) {
    // What takes their place is made when it is touched: so that not both exist, these go. A late rank makes those that
    // it stores into once more, for itself.
    static_cast<void>(::fallocate(memfd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                                  static_cast<off_t>(bytes)));
  }
  return 0;
}

}  // namespace ronde::transport
