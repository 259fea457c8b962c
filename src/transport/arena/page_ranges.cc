#include "transport/arena/page_ranges.h"

#include <algorithm>

#include "base/round_up.h"

namespace ronde::transport {

PageRanges::Range PageRanges::whole_pages(std::size_t offset, std::size_t bytes, std::size_t page) {
  return {offset / page * page, round_up(offset + bytes, page)};
}

void PageRanges::add(Range range) {
  std::vector<Range> kept;
  for (const Range& each : ranges_) {
    if (each.end < range.begin || range.end < each.begin) {
      kept.push_back(each);
    } else {
      range = {std::min(each.begin, range.begin), std::max(each.end, range.end)};
    }
  }
  kept.push_back(range);
  std::sort(kept.begin(), kept.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  ranges_ = std::move(kept);
}

std::vector<PageRanges::Range> PageRanges::common_with(Range range) const {
  std::vector<Range> common;
  for (const Range& each : ranges_) {
    const Range both{std::max(each.begin, range.begin), std::min(each.end, range.end)};
    if (both.begin < both.end) {
      common.push_back(both);
    }
  }
  return common;
}

std::vector<PageRanges::Range> PageRanges::missing_from(Range range) const {
  std::vector<Range> missing;
  for (const Range& each : common_with(range)) {
    if (range.begin < each.begin) {
      missing.push_back({range.begin, each.begin});
    }
    range.begin = each.end;
  }
  if (range.begin < range.end) {
    missing.push_back(range);
  }
  return missing;
}

}  // namespace ronde::transport
