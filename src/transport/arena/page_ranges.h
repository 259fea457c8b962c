// A set of pages of one heap, as ranges of offsets.
#pragma once

#include <cstddef>
#include <vector>

namespace ronde::transport {

/// Not for many: every call looks at all of them.
class PageRanges {
 public:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool operator==(const Range&) const = default;
  };

  /// All pages of which the bytes touch a part.
  static Range whole_pages(std::size_t offset, std::size_t bytes, std::size_t page);

  void add(Range range);
  /// What of the set lies in the range, and what of the range is not in the set; ascending.
  std::vector<Range> common_with(Range range) const;
  std::vector<Range> missing_from(Range range) const;

 private:
  std::vector<Range> ranges_;  ///< ascending, none touches the next
};

}  // namespace ronde::transport
